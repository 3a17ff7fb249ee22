/**
 * What the caller gave to the shim, byte for byte, in latin1 text: Node decodes arguments and environment lossily, the
 * kernel keeps them in /proc. On macOS Node's own strings are all there is (docs/limits.md).
 */
import { readFileSync } from './fs.ts';
import { SIGNALS } from './signals.ts';

/** The last `count` arguments of this process. */
export function rawArguments(count: number): string[] {
  if (count === 0) return [];
  const all = readList('/proc/self/cmdline') ?? process.argv.map(toLatin1);
  return all.slice(-count);
}

export interface RawEnvironments {
  /** What the caller gave to the shell. */
  readonly given: readonly string[];
  /** What the shell passes on. */
  readonly passed: readonly string[];
}

/** The caller's environment and the shell's, or undefined where they cannot be read (macOS, a non-dumpable shell). */
export function rawEnvironments(shell: number): RawEnvironments | undefined {
  const given = readList(`/proc/${shell}/environ`);
  const passed = readList('/proc/self/environ');
  return given && passed ? { given, passed } : undefined;
}

/** Their numbers, which POSIX fixes. */
const NUMBERS = { SIGINT: 2, SIGTERM: 15, SIGHUP: 1, SIGQUIT: 3 } as const;

/** Which of the signals that we listen for the caller ignores, read from the shell; none where that cannot be read. */
export function ignoredSignals(shell: number): Set<string> {
  const mask = /^SigIgn:\s*([0-9a-f]+)$/m.exec(readText(`/proc/${shell}/status`) ?? '')?.[1] ?? '0';
  const bits = BigInt(`0x${mask}`);
  return new Set(SIGNALS.filter((name) => (bits >> BigInt(NUMBERS[name] - 1)) & 1n));
}

/** A variable of this process in latin1 text. */
export function rawVariable(name: string): string | undefined {
  const entry = readList('/proc/self/environ')?.find((text) => text.startsWith(`${name}=`));
  if (entry !== undefined) return entry.slice(name.length + 1);
  const value = process.env[name];
  return value === undefined ? undefined : toLatin1(value);
}

function readList(path: string): string[] | undefined {
  const text = readText(path);
  return text === '' ? [] : text?.split('\0').slice(0, -1);
}

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return undefined;
  }
}

export function toLatin1(text: string): string {
  return Buffer.from(text).toString('latin1');
}
