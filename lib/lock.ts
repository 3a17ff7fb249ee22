/**
 * One task at a time: a lock the kernel releases when its holder dies, so that there is no staleness rule and no age
 * (design section 5). Everything that changes a task holds it.
 */
import { dirname } from 'node:path';
import { statfsText } from './durable.ts';
import { errnoOf, messageOf, TaskError, unlessMissing } from './errors.ts';
import { closeSync, constants, fchmodSync, fstatSync, lstatSync, openSync, unlinkSync } from './fs.ts';
import { type LockAddon, loadAddon } from './lock-addon.ts';
import { sleep } from './turn.ts';

export interface TaskLock {
  /** Lets go. With `unlink` the lock file goes too: only its holder may do that. */
  release(options: { readonly unlink: boolean }): void;
}

export interface LockWait {
  /** How long a busy lock is waited for, in milliseconds. */
  readonly ms: number;
  /** Called between two tries; throws to give up. */
  readonly beat: () => Promise<void>;
}

/** How long spawn and teardown wait for a busy lock unless told, in milliseconds (design section 5). */
export const LOCK_WAIT = 5000;

/** How often a busy lock is tried, in milliseconds. */
const INTERVAL = 10;

/** The lock, or undefined when it stayed busy. @throws TaskError IO, or whatever `beat` throws. */
export async function acquireLock(path: string, wait: LockWait): Promise<TaskLock | undefined> {
  for (const end = process.uptime() * 1000 + wait.ms; ; ) {
    const fd = tryPath(path);
    if (fd !== undefined) return { release: ({ unlink }) => release(path, fd, unlink) };
    await wait.beat();
    if (process.uptime() * 1000 >= end) return undefined;
    await sleep(INTERVAL);
  }
}

/** One try: open, lock, and prove that the path still names what was locked (a holder may have unlinked it meanwhile). */
function tryPath(path: string): number | undefined {
  const { O_RDWR, O_CREAT, O_NOFOLLOW, O_NONBLOCK } = constants;
  for (;;) {
    let fd: number;
    try {
      fd = openSync(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK, 0o600);
    } catch (error) {
      throw new TaskError('IO', `cannot open the lock ${path}: ${messageOf(error)}${statfsText(dirname(path), error)}`);
    }
    try {
      if (!fstatSync(fd).isFile()) throw new TaskError('IO', `the lock ${path} is not a regular file: move it away`);
      if (!tryLock(fd)) {
        closeSync(fd);
        return undefined;
      }
      if (isStill(path, fd)) {
        fchmodSync(fd, 0o600);
        return fd;
      }
    } catch (error) {
      closeSync(fd);
      throw error;
    }
    closeSync(fd);
  }
}

function isStill(path: string, fd: number): boolean {
  const named = unlessMissing(() => lstatSync(path, { bigint: true }));
  const held = fstatSync(fd, { bigint: true });
  return named !== undefined && named.ino === held.ino && named.dev === held.dev;
}

function release(path: string, fd: number, unlink: boolean): void {
  try {
    if (unlink && isStill(path, fd)) unlinkSync(path);
  } finally {
    closeSync(fd);
  }
}

let addon: LockAddon | undefined;

function tryLock(fd: number): boolean {
  addon ??= loadAddon();
  try {
    addon.tryLock(fd, 0, 0, true);
    return true;
  } catch (error) {
    if (errnoOf(error) === 'EAGAIN' || errnoOf(error) === 'EACCES') return false;
    throw error;
  }
}
