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
  /** It belongs to a task that was started inside this one: it has this one's token as FM_TASK_PARENT. */
  readonly inner: boolean;
}

/**
 * The living processes by the token they carry, as their own or as their outer task's, without `self` and its ancestors: those are never a task's leak, even
 * when a task runs its own teardown. Linux only; elsewhere nothing is found.
 */
export function scanTokens(self: number = process.pid): Map<string, Carrier[]> {
  const found = new Map<string, Carrier[]>();
  if (process.platform !== 'linux') return found;
  const spared = lineage(self);
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name) || spared.has(Number(name))) continue;
    const tokens = readTokens(name);
    const info = tokens.size === 0 ? 'gone' : readProcess(Number(name));
    if (typeof info === 'string' || info.dead) continue;
    for (const [token, inner] of tokens) {
      const carriers = found.get(token) ?? [];
      carriers.push({ pid: info.pid, start: info.start, name: readName(name), inner });
      found.set(token, carriers);
    }
  }
  return found;
}

/** The tokens in a process's environment, and whether each is only its outer task's. */
function readTokens(pid: string): Map<string, boolean> {
  let environ: string;
  try {
    environ = readFileSync(`/proc/${pid}/environ`, 'latin1');
  } catch {
    return new Map();
  }
  const tokens = new Map<string, boolean>();
  for (const [, name, token] of environ.matchAll(/(?:^|\0)FM_TASK_(PARENT|TOKEN)=([^\0]+)/g)) {
    tokens.set(token as string, name === 'PARENT' && tokens.get(token as string) !== false);
  }
  return tokens;
}

function readName(pid: string): string {
  try {
    return unlessMissing(() => readFileSync(`/proc/${pid}/comm`, 'utf8').trim()) ?? '?';
  } catch {
    return '?';
  }
}
