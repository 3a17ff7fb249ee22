/** The operation behind task-teardown: design section 7, read from top to bottom. */
import { type EndContext, endTask, waitForEnd } from './end.ts';
import { messageOf, TaskError } from './errors.ts';
import type { Home } from './home.ts';
import type { Machine } from './machine.ts';
import { taskPaths } from './paths.ts';
import type { ProcessTable } from './process-table.ts';
import { lineage } from './processes.ts';
import { previewReaping } from './reap.ts';
import type { ProcessReport } from './reap-report.ts';
import type { TaskRecord } from './record.ts';
import { dropRecord, type Reading, readRecord } from './record-file.ts';
import type { Removed } from './remove.ts';
import { planReaping, planRetirement, type Retired, type RetirePlan, retireTask } from './retire.ts';
import { describeDistrust, withTaskLock } from './task.ts';
import { describeVerdict, judgeTask } from './verdict.ts';

export interface TeardownOptions {
  /** How long a busy lock is waited for, in milliseconds. */
  readonly lockWaitMs: number;
  /** Wait for the recorded process to end, at most so many milliseconds. */
  readonly waitMs?: number;
  /** End the recorded process: TERM, so many milliseconds of grace, KILL. */
  readonly stopGraceMs?: number;
  /** What the task left running has so many milliseconds between TERM and KILL. */
  readonly graceMs?: number;
  /** End what merely stands in the root, too, where it started after the task and has no terminal. */
  readonly reapVisitors?: boolean;
  /** Only this launch; a record with another spawn_gen is somebody else's and is left (is: 'nothing'). */
  readonly spawnGen?: string;
}

export interface TeardownContext extends EndContext {
  readonly home: Home;
  readonly here: Machine;
  /** Asked between entries of a tree; true stops the removal where it is. */
  readonly stop: () => boolean;
  /** What goToDescriptors gave, where the working directory is this program's own to change. */
  readonly prefix?: string;
  /** Called now and then during a removal with what is removed so far. */
  readonly onProgress?: ((removed: Removed) => void) | undefined;
  /** Gets each process that is ended, spared, or survives; also of a teardown that fails later. */
  readonly onProcess?: (report: ProcessReport) => void;
  /** Gets the last look at all processes, for what could not be looked at. */
  readonly onScan?: (table: ProcessTable) => void;
}

export type TeardownResult =
  | Retired
  /** No record, nothing to do. */
  | { readonly is: 'nothing' }
  /** An orchestrator's own record: nothing of ours. */
  | { readonly is: 'notes' };

/** Ends the life of one task. @throws TaskError when it is kept: its code says why. */
export async function teardownTask(
  context: TeardownContext,
  id: string,
  options: TeardownOptions,
): Promise<TeardownResult> {
  const seen = await awaitEnd(context, id, options);
  const wait = { ms: options.lockWaitMs, beat: context.beat };
  return withTaskLock(context.home, id, wait, async () => {
    const reading = trust(context.home, id, readRecord(context.home, id));
    if (reading.kind !== 'task') return { is: reading.kind === 'none' ? 'nothing' : 'notes' };
    const { record, birth } = reading;
    if (options.spawnGen !== undefined && options.spawnGen !== record.spawn_gen) return { is: 'nothing' };
    if (seen !== undefined && seen !== record.spawn_gen) {
      throw new TaskError(
        'BUSY',
        `the task ${id} was launched again meanwhile: nothing was changed; run this again if that one is to go too`,
      );
    }
    assertEnded(context, record);
    const { graceMs, reapVisitors } = options;
    return retireTask({ ...context, graceMs, reapVisitors }, record, birth);
  });
}

/** What teardownTask would do, from the same decisions; takes no lock and changes nothing. @throws TaskError as it does. */
export function planTeardown(
  context: TeardownContext,
  id: string,
  { reapVisitors }: Pick<TeardownOptions, 'reapVisitors'>,
): { readonly root?: string; readonly plan: RetirePlan | { readonly do: 'nothing' } } {
  const reading = trust(context.home, id, readRecord(context.home, id));
  if (reading.kind !== 'task') return { plan: { do: 'nothing' } };
  const { record, birth } = reading;
  assertEnded(context, record);
  const plan = planRetirement(context, record, birth);
  const target = planReaping({ ...context, reapVisitors }, record, plan);
  if (target) {
    previewReaping(context, id, target);
  }
  return { root: record.tasktmp, plan };
}

/** --wait and --stop, without the lock; gives the spawn_gen of what it waited for. */
async function awaitEnd(context: TeardownContext, id: string, options: TeardownOptions): Promise<string | undefined> {
  if (options.waitMs === undefined && options.stopGraceMs === undefined) return undefined;
  const reading = readRecord(context.home, id);
  if (reading.kind !== 'task' || hasNoCommand(reading.record)) return undefined;
  if (options.spawnGen !== undefined && options.spawnGen !== reading.record.spawn_gen) return undefined;
  if (judgeTask(asSeenFromInside(reading.record), context.here, noScan).is !== 'running') return undefined;
  if (options.stopGraceMs !== undefined) await endTask(reading.record, options.stopGraceMs, context);
  else await waitForEnd(reading.record, options.waitMs ?? 0, context);
  return reading.record.spawn_gen;
}

/** For what counts only the recorded process: the others are reaped. */
const noScan = () => [];

/**
 * A task whose process was given (--pid) and is our own ancestor counts as held: its shell tears it down itself, needs
 * neither --stop nor --wait for that, and is never signalled. A launch of ours always has a command.
 */
function asSeenFromInside(record: TaskRecord): TaskRecord {
  const given = record.command === '""' && record.pid !== '';
  return given && lineage(process.pid).has(Number(record.pid)) ? { ...record, state: 'held', pid: '' } : record;
}

/** Passes on what may be acted on. @throws TaskError RECORD for the rest. */
function trust(home: Home, id: string, reading: Reading): Extract<Reading, { kind: 'none' | 'task' | 'notes' }> {
  if (reading.kind === 'unreadable' || reading.kind === 'moved')
    throw new TaskError('RECORD', describeDistrust(home, id, reading));
  return reading;
}

/** What is creating or removing has no command: its pid is only that of who is, or was, at work on it. */
function hasNoCommand({ state }: TaskRecord): boolean {
  return state === 'creating' || state === 'removing';
}

/** @throws TaskError BUSY unless the task is over. */
function assertEnded(context: TeardownContext, record: TaskRecord): void {
  if (hasNoCommand(record)) return;
  const verdict = judgeTask(asSeenFromInside(record), context.here, noScan);
  if (verdict.is !== 'running' && verdict.is !== 'unknown') return;
  const next = {
    running: 'end it with --stop, or wait for it with --wait',
    unknown: `tear it down where it belongs, or give it up with --forget`,
  }[verdict.is];
  throw new TaskError('BUSY', `the task ${record.id} is kept: ${describeVerdict(verdict)}; ${next}`);
}

/** What --forget dropped: the text says what nothing tracks any more. */
export interface Forgotten {
  readonly is: 'forgotten' | 'nothing';
  readonly untracked: string;
}

/** Drops the record alone, whatever its state, except of a task that runs here. @throws TaskError */
export async function forgetTask(context: TeardownContext, id: string, lockWaitMs: number): Promise<Forgotten> {
  return withTaskLock(context.home, id, { ms: lockWaitMs, beat: context.beat }, async () => {
    const reading = readRecord(context.home, id);
    const file = taskPaths(context.home.state, id).record;
    switch (reading.kind) {
      case 'none':
        return { is: 'nothing', untracked: '' };
      case 'notes':
        throw new TaskError(
          'RECORD',
          `${file} has no schema, so it is an orchestrator's own and not ours to forget: kept`,
        );
      case 'task': {
        const verdict = judgeTask(reading.record, context.here, noScan);
        if (verdict.is === 'running' && !hasNoCommand(reading.record))
          throw new TaskError('BUSY', `the task ${id} is not forgotten: ${describeVerdict(verdict)}`);
      }
    }
    try {
      dropRecord(context.home, id);
    } catch (error) {
      throw new TaskError('IO', `cannot drop ${file}: ${messageOf(error)}: move it away yourself`);
    }
    if (reading.kind === 'unreadable')
      return { is: 'forgotten', untracked: `what ${file} named; task-status lists directories without a record` };
    return { is: 'forgotten', untracked: reading.record.tasktmp };
  });
}
