/**
 * Which processes carry a task's token: one pass over /proc serves every task. A process whose environment cannot be
 * read (another user's, a non-dumpable one) is not counted as anybody's.
 */
import { unlessMissing } from './errors.ts';
import { readdirSync, readFileSync } from './fs.ts';
import { lineage, readProcess } from './processes.ts';

export interface Carrier {
  readonly pid: number;
  readonly start: string;
  /** The program's name as the kernel has it, at most 15 bytes. */
  readonly name: string;
}

const VARIABLE = 'FM_TASK_TOKEN=';

/**
 * The living processes by the token they carry, without `self` and its ancestors: those are never a task's leak, even
 * when a task runs its own teardown. Linux only; elsewhere nothing is found.
 */
export function scanTokens(self: number = process.pid): Map<string, Carrier[]> {
  const found = new Map<string, Carrier[]>();
  if (process.platform !== 'linux') return found;
  const spared = lineage(self);
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || spared.has(Number(name))) continue;
    const token = readToken(name);
    const info = token === undefined ? 'gone' : readProcess(Number(name));
    if (token === undefined || typeof info === 'string' || info.dead) continue;
    const carriers = found.get(token) ?? [];
    carriers.push({ pid: info.pid, start: info.start, name: readName(name) });
    found.set(token, carriers);
  }
  return found;
}

function readToken(pid: string): string | undefined {
  let environ: string;
  try {
    environ = readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return undefined;
  }
  return environ
    .split('\0')
    .find((entry) => entry.startsWith(VARIABLE))
    ?.slice(VARIABLE.length);
}

function readName(pid: string): string {
  try {
    return unlessMissing(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()) ?? '?';
  } catch {
    return '?';
  }
}
