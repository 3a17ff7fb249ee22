/**
 * The operation behind task-spawn up to the moment when the shell becomes the command: design section 6, steps 2 to 5.
 * What it finds on record decides (the state table); what it makes is written down first and taken back when it aborts.
 */
import { openBase } from './base.ts';
import { statfsText, syncBase } from './durable.ts';
import { errnoOf, messageOf, TaskError, unlessMissing } from './errors.ts';
import { hasFlag } from './flags.ts';
import { lstatSync } from './fs.ts';
import { type Home, openHome } from './home.ts';
import type { LockWait } from './lock.ts';
import type { Machine } from './machine.ts';
import { readNarrowPins } from './narrow-pins.ts';
import { type BaseSetting, deriveRoot, gotmpOf, type HomeSetting } from './paths.ts';
import type { ProcessInfo } from './processes.ts';
import { randomHex } from './random.ts';
import { applySettings, clashingKey, type Entry, formatEntries, type TaskRecord } from './record.ts';
import { type Birth, dropRecord, publishRecord, readRecord, replaceRecord } from './record-file.ts';
import { retireTask } from './retire.ts';
import { discardUnborn, findObstacle, type Identity, inspectRoot, makeFolder, tightenFolder, UNBORN } from './root.ts';
import { scanTokens } from './scan.ts';
import { assertSocketRoom } from './socket-room.ts';
import { describeDistrust, withTaskLock } from './task.ts';
import type { AbortTrap } from './trap.ts';
import { describeVerdict, judgeTask } from './verdict.ts';

export interface SpawnRequest {
  readonly id: string;
  readonly home: HomeSetting;
  /** Where a fresh root goes. `explicit` when the caller insists on it: then a relaunch must be there too. */
  readonly base: BaseSetting & { readonly explicit: boolean };
  /** --pin or --no-pin; undefined leaves it to the flag. */
  readonly pin: boolean | undefined;
  readonly settings: readonly Entry[];
  /** How long a busy lock is waited for, in milliseconds. */
  readonly lockWaitMs: number;
  /** argv[0] of the command, for the record; empty for a task whose process was given, or that has none. */
  readonly command: string;
  /** The process that plans the launch, or that will become the command. */
  readonly spawner: ProcessInfo;
  /** The process that is, or will be, the command; undefined for a task that is held. */
  readonly launcher: ProcessInfo | undefined;
  /** Chosen by the parent of a --rm launch, so that it can tell this launch from any other. */
  readonly spawnGen?: string;
}

export interface SpawnContext {
  readonly trap: AbortTrap;
  readonly here: Machine;
  readonly uid: number;
  readonly now: () => Date;
}

export interface Prepared {
  readonly home: Home;
  readonly record: TaskRecord;
  readonly relaunched: boolean;
  /** Variables that are set to the root besides TMPDIR. */
  readonly narrowPins: readonly string[];
}

/** What the record allows. */
type Start =
  | { readonly kind: 'fresh'; readonly extra: readonly Entry[] }
  | { readonly kind: 'relaunch'; readonly record: TaskRecord; readonly birth: Birth };

/**
 * Claims the id, its root and its record for the launcher. @throws TaskError, and then everything that this call made is
 * taken back, or the record stays as leftover with the reason.
 */
export async function prepareTask(context: SpawnContext, request: SpawnRequest): Promise<Prepared> {
  const { trap } = context;
  const wait = { ms: request.lockWaitMs, beat: trap.beat };
  const home = await openOrMakeHome(request, context.uid, wait);
  const pin = request.pin ?? hasFlag(home, 'task-tmpdir-pin');
  const narrowPins = readNarrowPins(home);
  const launch = describeLaunch(context, request, pin, pin || narrowPins.length > 0);
  return withTaskLock(home, request.id, wait, async () => {
    try {
      const start = await decideStart(context, home, request);
      await trap.beat();
      const record =
        start.kind === 'fresh'
          ? await startFresh(context, home, request, launch, start.extra)
          : await startAgain(context, home, request, launch, start);
      await trap.beat();
      publishRecord(home, record);
      trap.disarm();
      return { home, record, relaunched: start.kind === 'relaunch', narrowPins };
    } catch (error) {
      throw await abort(trap, home, request.id, error);
    }
  });
}

async function openOrMakeHome(request: SpawnRequest, uid: number, wait: LockWait): Promise<Home> {
  const setting = request.home;
  const home = openHome(setting, uid, true);
  if (home) return home;
  // Without a home the task is a new one: no home is made for what its base refuses.
  openBase(request.base, uid);
  const { makeHome } = await import('./home-make.ts');
  await makeHome(setting, uid, wait);
  const made = openHome(setting, uid, true);
  if (!made) throw new TaskError('CONFIG', `the home ${setting.path} vanished while it was made: try again`);
  return made;
}

/** What belongs to the launch and not to the task: new each time. */
interface Launch {
  /** Of the process that is at work now, and of the one that will be the task. */
  readonly spawner: Pick<TaskRecord, 'pid' | 'pid_start' | 'tty_nr'>;
  readonly keys: Pick<
    TaskRecord,
    'state' | 'spawn_gen' | 'tmpdir_pin' | 'host' | 'boot_id' | 'pid_ns' | 'pid' | 'pid_start' | 'tty_nr' | 'command'
  >;
  /** Whether any variable sends other programs' temporary files into the root. */
  readonly pinned: boolean;
}

function describeLaunch({ here }: SpawnContext, request: SpawnRequest, pin: boolean, pinned: boolean): Launch {
  const { launcher, spawner, command, spawnGen } = request;
  const keys = {
    state: launcher ? ('active' as const) : ('held' as const),
    spawn_gen: spawnGen ?? randomHex(16),
    tmpdir_pin: pin ? '1' : '0',
    ...here,
    ...processKeys(launcher),
    command: JSON.stringify(command),
  };
  return { spawner: processKeys(spawner), keys, pinned };
}

function processKeys(process: ProcessInfo | undefined) {
  return { pid: String(process?.pid ?? ''), pid_start: process?.start ?? '', tty_nr: process?.tty ?? '' };
}

/** Step 2: the state table of section 6, row by row (A27). @throws TaskError for every row that is refused. */
async function decideStart(context: SpawnContext, home: Home, { id }: SpawnRequest): Promise<Start> {
  const reading = readRecord(home, id);
  switch (reading.kind) {
    case 'none':
      return { kind: 'fresh', extra: [] };
    case 'notes': {
      const key = clashingKey(reading.entries);
      if (key)
        throw new TaskError(
          'RECORD',
          `the record of ${id} has no schema but the key ${key}, which is task-spawn's own: rename that key`,
        );
      return { kind: 'fresh', extra: reading.entries };
    }
    case 'unreadable':
    case 'moved':
      throw new TaskError('RECORD', describeDistrust(home, id, reading));
  }
  const { record, birth } = reading;
  switch (record.state) {
    case 'creating':
      // It may stand in the place of an orchestrator's notes: startFresh replaces it, or puts them back.
      await finishRetiring(context, home, record, birth, true);
      context.trap.arm(() => withdrawRecord(home, record, record.extra));
      return { kind: 'fresh', extra: record.extra };
    case 'removing':
      await finishRetiring(context, home, record, birth, false);
      return { kind: 'fresh', extra: [] };
    case 'leftover':
      throw new TaskError(
        'NOT_OURS',
        `the task ${id} is a leftover (${record.leftover_reason ?? 'its record does not say why'}): put that right and run task-teardown ${id}`,
      );
  }
  const verdict = judgeTask(record, context.here, () => scanTokens());
  if (verdict.is !== 'dead') {
    throw new TaskError(
      'BUSY',
      `the task ${id} is taken: ${describeVerdict(verdict)}; choose another id, or end it with task-teardown`,
    );
  }
  return { kind: 'relaunch', record, birth };
}

/** Finishes what a killed spawn or teardown left half done. */
async function finishRetiring(
  { here, trap }: SpawnContext,
  home: Home,
  record: TaskRecord,
  birth: Birth,
  keepRecord: boolean,
): Promise<void> {
  const retired = await retireTask({ home, here, stop: () => trap.signalled, keepRecord }, record, birth);
  if (retired.is !== 'leftover') return;
  throw new TaskError(
    'NOT_OURS',
    `the task ${record.id} was left half done and ${retired.root} cannot be cleared: ${retired.reason}; put that right and run task-teardown ${record.id}`,
  );
}

/** Step 3 for a new task: the record first, then the root. Gives the record to publish. */
async function startFresh(
  context: SpawnContext,
  home: Home,
  request: SpawnRequest,
  launch: Launch,
  extra: readonly Entry[],
): Promise<TaskRecord> {
  const { trap, uid } = context;
  const base = openBase(request.base, uid);
  const root = deriveRoot(base.path, home.tag, request.id);
  const obstacle = findObstacle(root);
  if (obstacle)
    throw new TaskError(
      'NOT_OURS',
      `${root}: ${obstacle}, and no record of this home proves it; it is untouched: move it away`,
    );
  if (launch.pinned) assertSocketRoom(root);
  const record: TaskRecord = {
    schema: '1',
    id: request.id,
    token: randomHex(16),
    created_at: context.now().toISOString(),
    home: home.path,
    base: base.path,
    base_dev: base.dev,
    base_ino: base.ino,
    tasktmp: root,
    ...UNBORN,
    ...launch.keys,
    ...launch.spawner,
    state: 'creating',
    extra: applySettings(extra, request.settings),
  };
  trap.arm(() => withdrawRecord(home, record, extra));
  publishRecord(home, record);
  await trap.beat();
  const identity = claimFolder(context, root, base.path);
  await trap.beat();
  claimFolder(context, gotmpOf(root), base.path);
  return { ...record, ...launch.keys, ...identity };
}

/** Step 3 for a dead task: its own proven root, or a new one that the record announces first. Gives the record to publish. */
async function startAgain(
  context: SpawnContext,
  home: Home,
  request: SpawnRequest,
  launch: Launch,
  start: Start & { kind: 'relaunch' },
): Promise<TaskRecord> {
  const { trap, uid, here } = context;
  const { record, birth } = start;
  const root = record.tasktmp;
  if (request.base.explicit && openBase(request.base, uid).path !== record.base) {
    throw new TaskError(
      'USAGE',
      `the task ${record.id} lives in the base ${record.base}: leave --base out, or tear it down first`,
    );
  }
  if (launch.pinned) assertSocketRoom(root);
  const finding = inspectRoot(home, record, birth, here);
  if (finding.is === 'foreign')
    throw new TaskError(
      'NOT_OURS',
      `${root}: ${finding.reason}; untouched: put that right and run task-teardown ${record.id}`,
    );
  if (finding.is === 'elsewhere' || finding.is === 'uncertain') {
    throw new TaskError(
      'BUSY',
      `${root}: ${finding.reason}: launch it where that base is, or give it up with task-teardown --forget ${record.id}`,
    );
  }
  const base = openBase({ source: 'the recorded base', path: record.base }, uid);
  let identity: Identity;
  if (finding.is === 'own') {
    identity = finding.identity;
    const mode = tightenFolder(root);
    trap.arm(() => tightenFolder(root, mode));
  } else {
    if (finding.is === 'unborn') clearUnborn(root, record.id);
    trap.arm(() => publishRecord(home, record));
    publishRecord(home, { ...record, ...UNBORN });
    await trap.beat();
    identity = claimFolder(context, root, base.path);
  }
  await trap.beat();
  if (unlessMissing(() => lstatSync(gotmpOf(root))) === undefined) claimFolder(context, gotmpOf(root), base.path);
  const { dead_since: _, ...kept } = record;
  return {
    ...kept,
    ...launch.keys,
    ...identity,
    base_dev: base.dev,
    extra: applySettings(record.extra, request.settings),
  };
}

/** The root of a relaunch that was killed before it could write the identity down. */
function clearUnborn(root: string, id: string): void {
  try {
    discardUnborn(root);
  } catch (error) {
    throw new TaskError(
      'NOT_OURS',
      `${root} cannot be proven the task's own nor taken away with rmdir (${messageOf(error)}): look into it, then run task-teardown ${id}`,
    );
  }
}

/** One exclusive mkdir, armed the moment it succeeds. */
function claimFolder({ trap, uid }: SpawnContext, path: string, base: string): Identity {
  try {
    return makeFolder(path, uid, trap.arm);
  } catch (error) {
    const next =
      errnoOf(error) === 'EEXIST' ? ': something else made it just now; it is untouched' : statfsText(base, error);
    throw new TaskError(
      errnoOf(error) === 'EEXIST' ? 'NOT_OURS' : 'IO',
      `cannot make ${path}: ${messageOf(error)}${next}`,
      { cause: error },
    );
  }
}

/** Takes the record of a fresh spawn back: an orchestrator's own notes are put back as they were (A17). */
function withdrawRecord(home: Home, { id, base }: TaskRecord, notes: readonly Entry[]): void {
  syncBase(base);
  if (notes.length === 0) dropRecord(home, id);
  else if (readRecord(home, id).kind !== 'notes') replaceRecord(home, id, formatEntries(notes));
}

/** Takes back what this spawn made, while the lock is still held (A18). What cannot be stays on record as leftover. */
async function abort(trap: AbortTrap, home: Home, id: string, error: unknown): Promise<unknown> {
  try {
    await trap.rollback();
    return error;
  } catch (failure) {
    const reading = readRecord(home, id);
    const why = `the aborted launch could not be taken back: ${messageOf(failure)}`;
    if (reading.kind === 'task') {
      // The spawner's pid was only at work on it: it is nothing that --stop may end.
      const spawner = reading.record.state === 'creating' ? processKeys(undefined) : {};
      publishRecord(home, { ...reading.record, ...spawner, state: 'leftover', leftover_reason: why });
    }
    return new TaskError('SURVIVED', `${messageOf(error)}; ${why}; it stays on record: task-teardown ${id}`, {
      cause: error,
    });
  }
}

/** `--set` without a command: changes keys of a record that are not ours, under the lock. @throws TaskError */
export async function setKeys(
  context: SpawnContext,
  request: Pick<SpawnRequest, 'id' | 'home' | 'settings' | 'lockWaitMs'>,
): Promise<void> {
  const { id, settings } = request;
  const nothing = new TaskError('USAGE', `the task ${id} has no record to set keys in: spawn it first`);
  const home = openHome(request.home, context.uid, true);
  if (!home) throw nothing;
  await withTaskLock(home, id, { ms: request.lockWaitMs, beat: context.trap.beat }, async () => {
    const reading = readRecord(home, id);
    switch (reading.kind) {
      case 'none':
        throw nothing;
      case 'unreadable':
      case 'moved':
        throw new TaskError('RECORD', describeDistrust(home, id, reading));
      case 'notes':
        replaceRecord(home, id, formatEntries(applySettings(reading.entries, settings)));
        return;
      case 'task':
        publishRecord(home, { ...reading.record, extra: applySettings(reading.record.extra, settings) });
    }
  });
}
