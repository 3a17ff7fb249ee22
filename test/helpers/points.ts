/** Stopping a command at each of its system calls that matter: strace(1) finds the points, and strikes at one of them. */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome, Sandbox } from './sandbox.ts';
import { until } from './until.ts';

const CALLS = ['mkdir', 'rmdir', 'rename', 'link', 'unlink', 'unlinkat', 'fsync', 'openat'];

export interface Point {
  readonly call: string;
  /** Its how-many-eth such call in its thread it is. */
  readonly when: number;
}

/** The calls of a command with which it changes something in the sandbox. */
export async function listPoints(sandbox: Sandbox, command: string, args: readonly string[]): Promise<Point[]> {
  const log = join(sandbox.path, 'calls');
  await strace(sandbox, log, [], command, args);
  const seen = new Map<string, number>();
  const points = new Map<string, Point>();
  for (const line of readFileSync(log, 'utf8').split('\n')) {
    const [, thread, call] = /^(\d+) +(\w+)\(/.exec(line) ?? [];
    if (!thread || !call || !CALLS.includes(call)) continue;
    const when = (seen.get(thread + call) ?? 0) + 1;
    seen.set(thread + call, when);
    const changes = !/ = -1 E/.test(line) && (call !== 'openat' || line.includes('O_CREAT'));
    if (changes && (call === 'fsync' || line.includes(sandbox.path) || line.includes('/proc/self/fd/')))
      points.set(`${call} ${when}`, { call, when });
  }
  return [...points.values()];
}

/** Runs the command with the signal sent to whoever enters the call of the point. */
export function runStruck(
  sandbox: Sandbox,
  { call, when }: Point,
  signal: string,
  command: string,
  args: readonly string[],
): Promise<Outcome> {
  const log = join(sandbox.path, 'struck');
  return strace(sandbox, log, ['-e', `inject=${call}:signal=${signal}:when=${when}`], command, args);
}

export async function strace(
  sandbox: Sandbox,
  log: string,
  inject: readonly string[],
  command: string,
  args: readonly string[],
): Promise<Outcome> {
  const trace = ['-f', '-o', log, '-e', `trace=${CALLS.join(',')}`, ...inject];
  return sandbox.run('strace', [...trace, command, ...args]);
}

export interface Paused {
  /** Node's. */
  readonly pid: number;
  /** Its parent's. */
  readonly shim: number;
  /** Lets it go on, and waits for its end. */
  resume(): Promise<Outcome>;
}

/** Runs the command up to the end of the call of the point, and holds it there. */
export async function pauseAt(
  sandbox: Sandbox,
  point: Point,
  command: string,
  args: readonly string[],
): Promise<Paused> {
  let ended = false;
  const running = runStruck(sandbox, point, 'STOP', command, args).finally(() => {
    ended = true;
  });
  const log = join(sandbox.path, 'struck');
  const thread = await until(`${point.call} ${point.when} is reached`, () => {
    if (ended) throw new Error(`${point.call} ${point.when} was never reached`);
    return /^(\d+) +--- stopped by SIGSTOP/m.exec(existsSync(log) ? readFileSync(log, 'utf8') : '')?.[1];
  });
  const status = readFileSync(`/proc/${thread}/status`, 'utf8');
  const [, pid, shim] = /^Tgid:\s*(\d+)$.*^PPid:\s*(\d+)$/ms.exec(status) as unknown as string[];
  const resume = async () => {
    // Each of its threads has a first call of a kind: it may be held more than once.
    await until('it has ended', () => {
      try {
        process.kill(Number(pid), 'SIGCONT');
      } catch {
        // It has just ended, and strace is about to.
      }
      return ended;
    });
    return running;
  };
  return { pid: Number(pid), shim: Number(shim), resume };
}
