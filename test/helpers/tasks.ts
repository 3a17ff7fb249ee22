/** Tasks in states that take some arranging. */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import { execa, type ResultPromise } from 'execa';
import type { Sandbox } from './sandbox.ts';
import { until } from './until.ts';

export interface Running {
  readonly pid: number;
  readonly root: string;
  readonly process: ResultPromise;
}

/** Starts a task and waits until its shell has become the command. */
export async function startTask(sandbox: Sandbox, id: string, command: readonly string[]): Promise<Running> {
  const started = sandbox.start('task-spawn', [id, '--', ...command]);
  const record = await until(`${id} is active`, async () => {
    const found = await sandbox.record(id);
    return found?.state === 'active' ? found : undefined;
  });
  const pid = Number(record.pid);
  await until(`${id} is its command`, () => commandOf(pid)?.some((word) => word.endsWith('/task-spawn')) === false);
  return { pid, root: record.tasktmp as string, process: started };
}

/** Starts a Python program as a task and waits until it says "ready" by making that file in the root. */
export async function startPython(sandbox: Sandbox, id: string, program: string): Promise<Running> {
  const ready = 'import os; open(os.environ["FM_TASK_TMP"] + "/ready", "w").close()';
  const task = await startTask(sandbox, id, ['python3', '-c', program.replace('READY', ready)]);
  await until(`${id} is ready`, () => lstatSync(join(task.root, 'ready'), { throwIfNoEntry: false }) !== undefined);
  return task;
}

function commandOf(pid: number): string[] | undefined {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
  } catch {
    return undefined;
  }
}

/** The state letter of a process ("S", "Z", …), or undefined when it is gone. */
export function stateOf(pid: number): string | undefined {
  try {
    return /\) (\S)/.exec(readFileSync(`/proc/${pid}/stat`, 'latin1'))?.[1];
  } catch {
    return undefined;
  }
}

export function isAlive(pid: number): boolean {
  const state = stateOf(pid);
  return state !== undefined && state !== 'Z' && state !== 'X';
}

/** Holds the lock of a task until the function it gives is called. */
export async function holdLock(sandbox: Sandbox, id: string): Promise<() => Promise<void>> {
  const program = [
    'import fcntl, sys, time',
    'file = open(sys.argv[1], "a+")',
    'fcntl.lockf(file, fcntl.LOCK_EX)',
    'print("held", flush=True)',
    'time.sleep(1000)',
  ].join('\n');
  const holder = execa('python3', ['-c', program, sandbox.state(`${id}.lock`)], { reject: false });
  await new Promise((heard) => holder.stdout?.once('data', heard));
  return async () => {
    holder.kill('SIGKILL');
    await holder;
  };
}

/** Everything below a path, with what tells whether it was changed: type, mode, owner, times, content. */
export function describeTree(path: string): Record<string, string> {
  const found: Record<string, string> = {};
  const visit = (each: string) => {
    const stat = lstatSync(each, { bigint: true });
    const content = stat.isSymbolicLink() ? readlinkSync(each) : stat.isFile() ? readFileSync(each, 'latin1') : '';
    found[each] = [stat.ino, stat.mode, stat.uid, stat.mtimeNs, stat.ctimeNs, content].join(' ');
    if (stat.isDirectory()) for (const name of readdirSync(each)) visit(join(each, name));
  };
  visit(path);
  return found;
}
