/**
 * The operations for programs: the commands' own, with settings instead of options. Nothing here ends the process,
 * prints, or reads the environment but the one that is handed in.
 */
import { join } from 'node:path';
import { taskEnvironment } from './environment.ts';
import { TaskError } from './errors.ts';
import { findHome, type Home } from './home.ts';
import type { SpawnContext } from './launch.ts';
import { LOCK_WAIT } from './lock.ts';
import { readMachine } from './machine.ts';
import { assertTaskId, type Environment, locateBase, locateHome } from './paths.ts';
import { requireProcess } from './processes.ts';
import { randomHex } from './random.ts';
import type { ProcessReport } from './reap-report.ts';
import { parseSetting } from './record.ts';
import type { Removed } from './remove.ts';
import { type RunResult, runTask } from './run.ts';
import { prepareTask as prepare } from './spawn.ts';
import { type Listing, listTasks as list } from './status.ts';
import { type TeardownOptions, type TeardownResult, teardownTask as teardown } from './teardown.ts';
import { AbortTrap } from './trap.ts';
import { nextTurn } from './turn.ts';

export interface LibraryOptions {
  /** The home; else what `env` says, as for the commands. */
  readonly home?: string;
  /** Where FM_HOME, XDG_STATE_HOME, HOME and FM_TASK_TMP_BASE are looked up; the process's own by default. */
  readonly env?: Environment;
}

export interface PrepareSettings extends LibraryOptions {
  /** Where a fresh root goes; else FM_TASK_TMP_BASE, else /tmp. A task that lives elsewhere is then refused. */
  readonly base?: string;
  /** Whether TMPDIR is set to the root; else what the flag config/task-tmpdir-pin says. */
  readonly pin?: boolean;
  /** Keys of your own for the task's record. */
  readonly set?: Readonly<Record<string, string>>;
  /** How long a busy lock is waited for, in milliseconds. */
  readonly lockWaitMs?: number;
}

export interface PreparedTask {
  readonly id: string;
  readonly root: string;
  /** Whether the task was there already: its root and content are kept. */
  readonly relaunched: boolean;
  /** What the task's processes must have in their environment ... */
  readonly env: Readonly<Record<string, string>>;
  /** ... and what they must not have. */
  readonly unset: readonly string[];
}

/**
 * Claims an id, its root and its record as `task-spawn --env` does. `pid` is the task's process; without it the task is
 * held until its teardown. @throws TaskError
 */
export async function prepareTask(
  id: string,
  settings: PrepareSettings & { readonly pid?: number; readonly signal?: AbortSignal } = {},
): Promise<PreparedTask> {
  assertTaskId(id);
  const { env = process.env, pid, signal, base, pin, set = {}, lockWaitMs = LOCK_WAIT } = settings;
  const trap = new AbortTrap(() => false, new Set(), signal);
  const context: SpawnContext = { trap, here: readMachine(), uid: userId(), now: () => new Date() };
  const prepared = await prepare(context, {
    id,
    home: locateHome(settings.home, env),
    base: { ...locateBase(base, env), explicit: base !== undefined },
    pin,
    settings: Object.entries(set).map(([key, value]) => parseSetting(`${key}=${value}`)),
    lockWaitMs,
    command: '',
    spawner: requireProcess(process.pid),
    launcher: pid === undefined ? undefined : requireProcess(pid),
  });
  const { set: added, unset } = taskEnvironment(prepared, env.FM_TASK_TOKEN);
  return { id, root: prepared.record.tasktmp, relaunched: prepared.relaunched, env: Object.fromEntries(added), unset };
}

export interface SpawnSettings extends PrepareSettings {
  readonly cwd?: string;
  /** The command's standard input, output and error: this process's, or nothing. */
  readonly stdio?: 'inherit' | 'ignore';
  /** Called with the command's pid once it is started; signals to it are the caller's to send. */
  readonly onStart?: (pid: number) => void;
}

/**
 * Runs a command as a task in a child process, waits, and tears that launch down, as `task-spawn --rm` does. `command`
 * and its arguments are passed on as they are. @throws TaskError IO when the prefix itself cannot be started
 */
export async function spawnTask(
  id: string,
  command: readonly [file: string, ...args: string[]],
  settings: SpawnSettings = {},
): Promise<RunResult> {
  assertTaskId(id);
  const { env = process.env, home, base, pin, set = {}, lockWaitMs = LOCK_WAIT, cwd, onStart } = settings;
  const option = (name: string, value: string | undefined) => (value === undefined ? [] : [`--${name}`, value]);
  const spawnGen = randomHex(16);
  return runTask({
    shim: join(import.meta.dirname, '../bin/task-spawn'),
    options: [
      ...option('home', home),
      ...option('base', base),
      ...(pin === undefined ? [] : [pin ? '--pin' : '--no-pin']),
      ...Object.entries(set).flatMap(([key, value]) => option('set', `${key}=${value}`)),
      ...option('lock-wait', `${lockWaitMs / 1000}s`),
      id,
    ],
    command,
    spawnGen,
    env,
    cwd,
    stdio: settings.stdio ?? 'inherit',
    ...(onStart ? { onStart } : {}),
    teardown: () => teardownTask(id, { ...(home === undefined ? {} : { home }), env, spawnGen, lockWaitMs }),
  });
}

/** A teardown's result, and the processes that it ended or spared. */
export type ReportedTeardown = TeardownResult & { readonly processes: readonly ProcessReport[] };

export interface TeardownSettings extends LibraryOptions, Partial<TeardownOptions> {
  /** Called for each process that is ended, spared, or survives; also where the teardown fails later. */
  readonly onProcess?: (report: ProcessReport) => unknown;
  /** Stops the teardown between two steps or two entries of the tree; running it again finishes. */
  readonly signal?: AbortSignal;
  /** Called now and then during a removal with what is removed so far. */
  readonly onProgress?: (removed: Removed) => void;
}

/**
 * Ends the life of a task as task-teardown does. A root that had to be kept is no error: `is` is 'leftover' then.
 * @throws TaskError when the task is kept or the home cannot be used; its `code` says why.
 */
export async function teardownTask(id: string, settings: TeardownSettings = {}): Promise<ReportedTeardown> {
  assertTaskId(id);
  const home = openFor(settings, true);
  if (!home) return { is: 'nothing', processes: [] };
  const { signal, lockWaitMs = LOCK_WAIT, waitMs, stopGraceMs, graceMs, reapVisitors, spawnGen } = settings;
  const stop = () => signal?.aborted ?? false;
  const beat = async () => {
    await nextTurn();
    if (stop()) throw new TaskError('BUSY', `the teardown of ${id} was stopped: run it again`);
  };
  const options = {
    lockWaitMs,
    ...(waitMs === undefined ? {} : { waitMs }),
    ...(stopGraceMs === undefined ? {} : { stopGraceMs }),
    ...(graceMs === undefined ? {} : { graceMs }),
    ...(reapVisitors === undefined ? {} : { reapVisitors }),
    ...(spawnGen === undefined ? {} : { spawnGen }),
  };
  const processes: ProcessReport[] = [];
  const onProcess = (report: ProcessReport) => {
    processes.push(report);
    settings.onProcess?.(report);
  };
  const { onProgress } = settings;
  const result = await teardown({ home, here: readMachine(), stop, beat, onProgress, onProcess }, id, options);
  return { ...result, processes };
}

/** What exists, what is live, what was kept and why, as task-status shows it. @throws TaskError */
export function listTasks(settings: LibraryOptions & { readonly ids?: readonly string[] } = {}): Listing {
  settings.ids?.forEach(assertTaskId);
  const home = openFor(settings, false);
  if (!home) return { tasks: [], unrecorded: [], unreadable: 0 };
  const base = locateBase(undefined, settings.env ?? process.env).path;
  return list(home, readMachine(), settings.ids, [base]);
}

function openFor({ home, env = process.env }: LibraryOptions, tighten: boolean): Home | undefined {
  const found = findHome(locateHome(home, env), userId(), env, tighten);
  return 'missing' in found ? undefined : found;
}

function userId(): number {
  return process.geteuid?.() ?? 0;
}
