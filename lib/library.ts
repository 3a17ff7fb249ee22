/**
 * The operations for programs: the commands' own, with settings instead of options. Nothing here ends the process,
 * prints, or reads the environment but the one that is handed in.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { TaskError } from './errors.ts';
import { findHome, type Home } from './home.ts';
import { LOCK_WAIT } from './lock.ts';
import { readMachine } from './machine.ts';
import { assertTaskId, type Environment, locateBase, locateHome } from './paths.ts';
import { type Listing, listTasks as list } from './status.ts';
import { type TeardownOptions, type TeardownResult, teardownTask as teardown } from './teardown.ts';

export interface LibraryOptions {
  /** The home; else what `env` says, as for the commands. */
  readonly home?: string;
  /** Where FM_HOME, XDG_STATE_HOME, HOME and FM_TASK_TMP_BASE are looked up; the process's own by default. */
  readonly env?: Environment;
}

export interface TeardownSettings extends LibraryOptions, Partial<TeardownOptions> {
  /** Stops the teardown between two steps or two entries of the tree; running it again finishes. */
  readonly signal?: AbortSignal;
}

/**
 * Ends the life of a task as task-teardown does. A root that had to be kept is no error: `is` is 'leftover' then.
 * @throws TaskError when the task is kept or the home cannot be used; its `code` says why.
 */
export async function teardownTask(id: string, settings: TeardownSettings = {}): Promise<TeardownResult> {
  assertTaskId(id);
  const home = openFor(settings, true);
  if (!home) return { is: 'nothing' };
  const { signal, lockWaitMs = LOCK_WAIT, waitMs, stopGraceMs } = settings;
  const stop = () => signal?.aborted ?? false;
  const beat = async () => {
    await nextTurn();
    if (stop()) throw new TaskError('BUSY', `the teardown of ${id} was stopped: run it again`);
  };
  const options = {
    lockWaitMs,
    ...(waitMs === undefined ? {} : { waitMs }),
    ...(stopGraceMs === undefined ? {} : { stopGraceMs }),
  };
  return teardown({ home, here: readMachine(), stop, beat }, id, options);
}

/** What exists, what is live, what was kept and why, as task-status shows it. @throws TaskError */
export function listTasks(settings: LibraryOptions & { readonly ids?: readonly string[] } = {}): Listing {
  settings.ids?.forEach(assertTaskId);
  const home = openFor(settings, false);
  if (!home) return { tasks: [], unrecorded: [] };
  const base = locateBase(undefined, settings.env ?? process.env).path;
  return list(home, readMachine(), settings.ids, [base]);
}

function openFor({ home, env = process.env }: LibraryOptions, tighten: boolean): Home | undefined {
  const found = findHome(locateHome(home, env), process.geteuid?.() ?? 0, env, tighten);
  return 'missing' in found ? undefined : found;
}
