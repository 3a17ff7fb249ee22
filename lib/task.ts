/** One task under its lock: what spawn and teardown share before they do anything. */
import { TaskError } from './errors.ts';
import type { Home } from './home.ts';
import { acquireLock, type LockWait } from './lock.ts';
import { taskPaths } from './paths.ts';
import { clearStaging, hasTaskRecord, readRecord } from './record-file.ts';

/**
 * Runs `change` under the task's lock. The lock file stays while a record of ours does and goes with it.
 * @throws TaskError BUSY, with what the record says, when the lock stayed busy.
 */
export async function withTaskLock<T>(home: Home, id: string, wait: LockWait, change: () => Promise<T>): Promise<T> {
  const lock = await acquireLock(taskPaths(home.state, id).lock, wait);
  if (!lock)
    throw new TaskError(
      'BUSY',
      `the task ${id} is locked: ${describeHolder(home, id)}; try again, or wait longer with --lock-wait`,
    );
  try {
    clearStaging(home, id);
    return await change();
  } finally {
    lock.release({ unlink: !hasTaskRecord(home.state, id) });
  }
}

function describeHolder(home: Home, id: string): string {
  const reading = readRecord(home, id);
  if (reading.kind !== 'task') return 'another task-spawn or task-teardown is at work on it';
  const { state, pid } = reading.record;
  if (state === 'removing') return 'it is being removed';
  if (state === 'creating') return `it is being created for pid ${pid}`;
  return `another task-spawn or task-teardown is at work on it (its record: ${state}${pid && `, pid ${pid}`})`;
}

/** Of an unreadable or moved record: what is wrong and the way out, in one line. */
export function describeDistrust(
  home: Home,
  id: string,
  reading: { kind: 'moved' | 'unreadable'; reason?: string },
): string {
  const file = taskPaths(home.state, id).record;
  const wrong = reading.kind === 'moved' ? 'it was written for a home at another path' : reading.reason;
  return `the record ${file} is not trusted: ${wrong}; kept as it is; look at it, or drop it with task-teardown --forget ${id}`;
}
