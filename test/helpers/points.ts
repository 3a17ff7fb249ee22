/** Stopping a command at each of its system calls that matter: strace(1) finds the points, and strikes at one of them. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Outcome, Sandbox } from './sandbox.ts';

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
