/** Waiting for a task's recorded process, and ending it. No lock is held here; its identity is proved before each signal. */

import { errnoOf, TaskError } from './errors.ts';
import { lineage, probeProcess } from './processes.ts';
import type { TaskRecord } from './record.ts';
import { sleep } from './turn.ts';

/** How often a process is looked at, in milliseconds. */
const INTERVAL = 20;
/** How long a process may take to disappear after SIGKILL, in milliseconds. */
const AFTER_KILL = 5000;

export interface EndContext {
  /** Called between two looks; throws to give up. */
  readonly beat: () => Promise<void>;
}

/** Waits for the end of the recorded process, at most `ms`. @throws TaskError BUSY when it still runs then. */
export async function waitForEnd(record: TaskRecord, ms: number, context: EndContext): Promise<void> {
  if (await isGone(record, ms, context)) return;
  throw new TaskError(
    'BUSY',
    `the task ${record.id} still runs as pid ${record.pid}: wait longer with --timeout, or end it with --stop`,
  );
}

/** TERM, wait `graceMs`, KILL. @throws TaskError BUSY for an ancestor of ours, SURVIVED when it lives on. */
export async function endProcess(record: TaskRecord, graceMs: number, context: EndContext): Promise<void> {
  if (lineage(process.pid).has(Number(record.pid))) {
    throw new TaskError(
      'BUSY',
      `the task ${record.id} is what this command runs in: it is not ended from inside; leave "task-teardown --wait ${record.id}" in the background`,
    );
  }
  signal(record, 'SIGTERM');
  // A stopped process hears TERM only once it goes on.
  signal(record, 'SIGCONT');
  if (await isGone(record, graceMs, context)) return;
  signal(record, 'SIGKILL');
  if (await isGone(record, AFTER_KILL, context)) return;
  throw new TaskError(
    'SURVIVED',
    `pid ${record.pid} of the task ${record.id} survived SIGKILL: nothing was removed; run this again when it is gone`,
  );
}

/** Sends a signal to the recorded process and to no other (B02). */
function signal(record: TaskRecord, name: NodeJS.Signals): void {
  if (probeProcess(Number(record.pid), record.pid_start) !== 'alive') return;
  try {
    process.kill(Number(record.pid), name);
  } catch (error) {
    if (errnoOf(error) === 'ESRCH') return;
    throw new TaskError(
      'SURVIVED',
      `pid ${record.pid} of the task ${record.id} cannot be signalled (${errnoOf(error)}): end it as its owner`,
    );
  }
}

async function isGone(record: TaskRecord, ms: number, context: EndContext): Promise<boolean> {
  for (const end = process.uptime() * 1000 + ms; ; ) {
    const found = probeProcess(Number(record.pid), record.pid_start);
    if (found === 'unreadable')
      throw new TaskError('BUSY', `pid ${record.pid} of the task ${record.id} cannot be read: kept`);
    if (found === 'dead') return true;
    if (process.uptime() * 1000 >= end) return false;
    await context.beat();
    await sleep(INTERVAL);
  }
}
