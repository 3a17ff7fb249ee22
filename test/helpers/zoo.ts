/**
 * Real processes for the reaping tests: artists, who try to escape their task, and bystanders, who have nothing to do with
 * it. Each says who it is by a variable or an argument of its own, so that it is found again whatever else it does.
 */
import { readdirSync, readFileSync } from 'node:fs';
import type { RunOptions, Sandbox } from './sandbox.ts';
import { until } from './until.ts';

/** What keeps a process from holding its parent's pipes open. */
export const QUIET = '>/dev/null 2>&1 </dev/null';

/** Runs in the background of a task's shell. Its sleep has a length of its own, as its only sign. */
export interface Artist {
  readonly title: string;
  /** A line of sh. `SLEEP` stands for a sleep that is this artist's own. */
  readonly line: string;
}

export const ARTISTS: readonly Artist[] = [
  { title: 'a background job', line: `SLEEP ${QUIET} &` },
  { title: 'setsid', line: `setsid SLEEP ${QUIET} &` },
  { title: 'nohup', line: `nohup SLEEP ${QUIET} &` },
  { title: 'a double fork', line: `( ( SLEEP ${QUIET} & ) & )` },
  { title: 'setsid and a double fork', line: `setsid sh -c '( SLEEP ${QUIET} & ) &' ${QUIET} &` },
  { title: 'env -i, by the hold', line: `env -i setsid SLEEP ${QUIET} &` },
  { title: 'without the token, by the hold', line: `env -u FM_TASK_TOKEN setsid SLEEP ${QUIET} &` },
  { title: 'without the hold, by the token', line: `setsid SLEEP ${QUIET} 9>&- &` },
  { title: 'cd /', line: `(cd / && exec setsid SLEEP ${QUIET}) &` },
  { title: 'a renamed argv', line: `setsid bash -c 'exec -a "[kworker/0:0]" SLEEP' ${QUIET} &` },
  { title: 'TERM ignored', line: `setsid sh -c 'trap "" TERM HUP; SLEEP' ${QUIET} &` },
  { title: 'stopped', line: `setsid sh -c 'kill -STOP $$; SLEEP' ${QUIET} &` },
  {
    title: 'B04 a TERM handler that starts another',
    line: `setsid sh -c 'trap "setsid SLEEP ${QUIET} & exit" TERM; while :; do sleep 0.05; done' ${QUIET} &`,
  },
  {
    title: 'B03 exec again and again',
    line: `setsid sh -c 'test "$0" -gt 0 && exec sh -c "$1" $(($0 - 1)) "$1"; exec SLEEP' 30 'sleep 0.02; test "$0" -gt 0 && exec sh -c "$1" $(($0 - 1)) "$1"; exec SLEEP' ${QUIET} &`,
  },
  {
    title: 'one that is born again and again',
    line: `setsid python3 -c 'import os, time
for _ in range(4000):
  if os.fork(): os._exit(0)
  time.sleep(0.005)
os.execvp("sleep", "SLEEP".split())' ${QUIET} &`,
  },
  {
    title: 'its first thread ended, others run on',
    line: `setsid python3 -c 'import ctypes, os, threading, time
threading.Thread(target=lambda: os.system("SLEEP")).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)' 9>&- ${QUIET} &`,
  },
  {
    title: 'an environment of a megabyte',
    line: `setsid python3 -c 'import os
env = dict(("V%d" % n, "x" * 100000) for n in range(10))
env.update(os.environ)
os.execvpe("sleep", "SLEEP".split(), env)' 9>&- ${QUIET} &`,
  },
  {
    title: 'arguments of a megabyte',
    line: `setsid python3 -c 'import os; os.execvp("python3", ["python3", "-c", "import os; os.system(\\"SLEEP\\")"] + ["x" * 100000] * 10)' ${QUIET} &`,
  },
];

/** The living processes that this sleep says its length to, by their arguments. */
export function sleepers(sleep: Sleep): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      try {
        return readFileSync(`/proc/${name}/cmdline`, 'latin1').includes(sleep.length);
      } catch {
        return false;
      }
    })
    .map(Number);
}

/** A sleep that no other process has: its length is its sign. */
export interface Sleep {
  readonly length: string;
  /** The command. */
  readonly line: string;
}

let last = 0;

export function ownSleep(): Sleep {
  last++;
  const length = `9${String(process.pid).padStart(7, '0')}${String(last).padStart(4, '0')}`;
  return { length, line: `sleep ${length}` };
}

/** Waits until exactly one process has become this sleep, and gives it. */
export async function awaitSleep(sleep: Sleep): Promise<number> {
  const pid = await until(`${sleep.line} runs`, () => {
    const found = sleepers(sleep).filter((each) => nameOf(each) === 'sleep');
    return found.length === 1 ? found[0] : undefined;
  });
  return pid;
}

/** Waits until any process says it, and gives all. */
export async function awaitSleepers(sleep: Sleep): Promise<number[]> {
  return until(`${sleep.line} is there`, () => {
    const found = sleepers(sleep);
    return found.length > 0 ? found : undefined;
  });
}

/** The program's name, or an empty text when it is gone. */
export function nameOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/comm`, 'latin1').trim();
  } catch {
    return '';
  }
}

export interface ProcessReport {
  readonly pid: number;
  readonly command: string;
  readonly evidence: string[];
  readonly action: string;
  readonly durationMs: number;
  readonly reason?: string;
}

/** task-teardown --json of one task. */
export async function teardownJson(sandbox: Sandbox, args: readonly string[], options?: RunOptions) {
  const { status, stdout, stderr } = await sandbox.teardown(['--json', ...args], options);
  const { tasks, unreadable } = JSON.parse(stdout);
  return { status, stderr, task: tasks[0], unreadable, processes: (tasks[0].processes ?? []) as ProcessReport[] };
}
