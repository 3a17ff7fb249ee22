/**
 * The operation behind task-spawn up to the moment when the shell becomes the command: design section 6, steps 2 to 5.
 * What it finds on record decides (the state table); what it makes is written down first and taken back when it aborts.
 * What a new id does not need is loaded when it is: each launch pays for the parsing of what it loads.
 */
import { openBase } from './base.ts';
import { messageOf, TaskError } from './errors.ts';
import { hasFlag } from './flags.ts';
import { type Home, openHome } from './home.ts';
import { describeLaunch, processKeys, type SpawnContext, type SpawnRequest } from './launch.ts';
import type { LockWait } from './lock.ts';
import { readNarrowPins } from './narrow-pins.ts';
import { clashingKey, type Entry, type TaskRecord } from './record.ts';
import { type Birth, publishRecord, readRecord } from './record-file.ts';
import { startFresh, withdrawRecord } from './start-fresh.ts';
import { describeDistrust, withTaskLock } from './task.ts';
import type { AbortTrap } from './trap.ts';

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
          : await (await import('./start-again.ts')).startAgain(context, home, request, launch, start);
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
  const [{ describeVerdict, judgeTask }, { Scan }] = await Promise.all([import('./verdict.ts'), import('./scan.ts')]);
  const verdict = judgeTask(record, context.here, new Scan(home).carriers);
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
  const { retireTask } = await import('./retire.ts');
  const retired = await retireTask({ home, here, stop: () => trap.signalled, keepRecord }, record, birth);
  if (retired.is !== 'leftover') return;
  throw new TaskError(
    'NOT_OURS',
    `the task ${record.id} was left half done and ${retired.root} cannot be cleared: ${retired.reason}; put that right and run task-teardown ${record.id}`,
  );
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
