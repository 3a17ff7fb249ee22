/** Looking at a launch from outside: the shim, and Node while it plans. */
import { readFileSync } from 'node:fs';
import { processesWith, type Sandbox } from './sandbox.ts';
import { until } from './until.ts';

/** What /proc has on a process, or '' when it is gone. */
export function proc(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'latin1');
  } catch {
    return '';
  }
}

/** The Node that plans the launch of a task in the sandbox, if there is one. */
export function findPlanner(sandbox: Sandbox, id: string): number | undefined {
  return processesWith(`FM_HOME=${sandbox.home}`).find((pid) => {
    const words = proc(pid, 'cmdline').split('\0');
    return words.some((word) => word.includes('task-spawn.load.js')) && words.includes(id);
  });
}

/** The same, once it listens for signals: SIGHUP, which Node itself leaves alone, is caught. */
export function listeningPlanner(sandbox: Sandbox, id: string): Promise<number> {
  return until(`a planner of ${id} listens`, () => {
    const pid = findPlanner(sandbox, id);
    const caught = pid === undefined ? '0' : (/SigCgt:\s*(\w+)/.exec(proc(pid, 'status'))?.[1] ?? '0');
    return BigInt(`0x${caught}`) & 1n ? pid : undefined;
  });
}
