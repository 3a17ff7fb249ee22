/**
 * Retiring a dead task: sections 7.3 to 7.7 of the design, under the task's lock. teardown calls it, and so does spawn
 * for what a killed spawn or teardown left half done. Everything that could refuse is looked at before the first change.
 */
import { syncBase } from './durable.ts';
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { lstatSync } from './fs.ts';
import type { Home } from './home.ts';
import type { Identity } from './identity.ts';
import type { KeptEntry } from './kept.ts';
import { comparePlace, type Machine } from './machine.ts';
import { listMountsBelow } from './mounts.ts';
import { describeTarget, reapTask } from './reap.ts';
import type { ReapContext } from './reap-report.ts';
import type { TaskRecord } from './record.ts';
import { type Birth, dropRecord, publishRecord, renameToRemoving } from './record-file.ts';
import { type Removal, type Removed, removeTree } from './remove.ts';
import { discardUnborn, inspectRoot, type RootFinding } from './root.ts';
import { oneLine, shorten } from './text.ts';

/** How long a record's leftover_reason may become, in characters. */
const MOST_REASON = 2000;

export interface RetireContext extends ReapContext {
  readonly home: Home;
  readonly here: Machine;
  /** Asked between entries of the tree; true stops the removal where it is. */
  readonly stop: () => boolean;
  /** What goToDescriptors gave, where the working directory is this program's own to change. */
  readonly prefix?: string;
  /** Called now and then during a removal with what is removed so far. */
  readonly onProgress?: ((removed: Removed) => void) | undefined;
  /** The caller puts another record in the place of this one: keys of others in it are never off the disk. */
  readonly keepRecord?: boolean;
  /** --reap-visitors: what merely stands in the root is ended too. */
  readonly reapVisitors?: boolean | undefined;
}

/** What became of a task's root and record. */
export type Retired =
  | { readonly is: 'removed'; readonly root: string; readonly entries: number; readonly bytes: number }
  /** The root was gone already. */
  | { readonly is: 'gone'; readonly root: string }
  /** The root was not touched, or did not go whole; the record stays as leftover. `own` false: not proven this task's. */
  | {
      readonly is: 'leftover';
      readonly root: string;
      readonly own: boolean;
      readonly reason: string;
      readonly kept: readonly KeptEntry[];
    };

/** What will be done with a root: decided by looking only. */
export type RetirePlan =
  | { readonly do: 'drop' }
  | { readonly do: 'discard' }
  | { readonly do: 'remove'; readonly identity: Identity }
  | { readonly do: 'keep'; readonly own: boolean; readonly reason: string };

/** Step 3: all checks, no change. @throws TaskError BUSY or IO when nothing may be done at all: the record stands as it is. */
export function planRetirement(context: RetireContext, record: TaskRecord, birth: Birth): RetirePlan {
  if (comparePlace(record, context.here) === 'unknown') {
    throw new TaskError(
      'BUSY',
      `the task ${record.id} was left half done on another machine, container or pid namespace (host ${record.host}): kept; tear it down there`,
    );
  }
  const finding: RootFinding = inspectRoot(context.home, record, birth, context.here);
  switch (finding.is) {
    case 'elsewhere':
      throw new TaskError(
        'BUSY',
        `${record.tasktmp}: ${finding.reason}; kept; run this where that base is, or give it up with task-teardown --forget ${record.id}`,
      );
    case 'uncertain':
      throw new TaskError('IO', `${record.tasktmp}: ${finding.reason}; kept; try again when it can be`);
    case 'foreign':
      return { do: 'keep', own: false, reason: finding.reason };
    case 'absent':
      return { do: 'drop' };
    case 'unborn':
      return { do: 'discard' };
    case 'own':
      return planRemoval(record.tasktmp, finding.identity);
  }
}

function planRemoval(root: string, identity: Identity): RetirePlan {
  let mounts: string[];
  try {
    mounts = listMountsBelow(root);
  } catch (error) {
    return { do: 'keep', own: true, reason: `mount points in it cannot be looked for: ${messageOf(error)}` };
  }
  if (mounts.length === 0) return { do: 'remove', identity };
  return {
    do: 'keep',
    own: true,
    reason: `mounted below it: ${mounts.map((mount) => JSON.stringify(mount)).join(', ')}; umount ${mounts.length > 1 ? 'them' : 'it'} first`,
  };
}

/**
 * What of the task may be ended. The root counts only where it is proven, or gone from its proven place (B14); visitors
 * are looked for only in one that is to be removed. Undefined after a restart: nothing of then lives.
 */
export function planReaping({ here, reapVisitors }: RetireContext, record: TaskRecord, plan: RetirePlan) {
  if (comparePlace(record, here) === 'past') return undefined;
  const target = describeTarget(record);
  const visitors = plan.do === 'remove' ? (reapVisitors ? ('end' as const) : ('name' as const)) : undefined;
  return plan.do === 'keep' && !plan.own ? { ...target, root: undefined } : { ...target, visitors };
}

/** Step 4: says whether anything was ended. @throws TaskError BUSY for a task inside it, SURVIVED */
function reap(context: RetireContext, record: TaskRecord, plan: RetirePlan): Promise<boolean> {
  const target = planReaping(context, record, plan);
  if (!target) return Promise.resolve(false);
  return reapTask(context, record.id, target);
}

/** Steps 3, 4, 6 and 7 (B07). @throws TaskError as planRetirement and reap: root and record stand as they were. */
export async function retireTask(context: RetireContext, record: TaskRecord, birth: Birth): Promise<Retired> {
  const root = record.tasktmp;
  let plan = planRetirement(context, record, birth);
  // What was ended may have changed what stands there.
  if (await reap(context, record, plan)) plan = planRetirement(context, record, birth);
  switch (plan.do) {
    case 'keep':
      return leave(context.home, record, plan.own, plan.reason);
    case 'drop':
      finish(context, record);
      return { is: 'gone', root };
    case 'discard':
      try {
        discardUnborn(root);
      } catch (error) {
        return leave(
          context.home,
          record,
          false,
          `its launch died before its identity was written, and it cannot be taken away with rmdir (${messageOf(error)})`,
        );
      }
      finish(context, record);
      return { is: 'removed', root, entries: 1, bytes: 0 };
    case 'remove':
      markRemoving(context.home, record);
      return removeRoot(context, { ...record, state: 'removing' }, plan.identity);
  }
}

async function removeRoot(context: RetireContext, record: TaskRecord, identity: Identity): Promise<Retired> {
  const root = record.tasktmp;
  const { stop, onProgress, prefix } = context;
  let removal: Removal | undefined;
  let failure = '';
  let own = true;
  try {
    removal = await removeTree(root, identity, { uid: context.home.uid, stop, onProgress, prefix });
  } catch (error) {
    failure = messageOf(error);
    own = !(error instanceof TaskError && error.code === 'NOT_OURS');
  }
  if (removal?.stopped)
    throw new TaskError(
      'BUSY',
      `stopped by a signal after ${removal.entries} entries of ${root}: run task-teardown ${record.id} again`,
    );
  // What lstat says is what counts, whatever the calls returned (case B56).
  if (unlessMissing(() => lstatSync(root)) === undefined) {
    finish(context, record);
    return { is: 'removed', root, entries: removal?.entries ?? 0, bytes: removal?.bytes ?? 0 };
  }
  const count = removal?.keptCount ?? 0;
  const reason =
    failure ||
    (count > 0
      ? `${count} ${count === 1 ? 'entry' : 'entries'} of it could not be removed`
      : 'something made it again after its removal');
  return leave(context.home, record, own, reason, removal?.kept);
}

/** Says on disk that the root is going; on a full disk by a rename, which needs no space (case B03). */
function markRemoving(home: Home, record: TaskRecord): void {
  if (record.state === 'removing') return;
  try {
    publishRecord(home, { ...record, state: 'removing' });
  } catch (error) {
    if (!(error instanceof TaskError) || error.code !== 'IO') throw error;
    renameToRemoving(home, record.id);
  }
}

/** Keeps the record as leftover, with the reason. A disk too full for that does not matter: the record that stands says enough. */
function leave(home: Home, record: TaskRecord, own: boolean, reason: string, kept: readonly KeptEntry[] = []): Retired {
  try {
    const first = kept[0] ? `, the first: ${shorten(kept[0].path)}: ${kept[0].reason}` : '';
    const leftover_reason = oneLine(`${record.tasktmp}: ${reason}${first}`).slice(0, MOST_REASON);
    publishRecord(home, { ...record, state: 'leftover', leftover_reason });
  } catch (error) {
    if (!(error instanceof TaskError) || error.code !== 'IO') throw error;
  }
  return { is: 'leftover', root: record.tasktmp, own, reason, kept };
}

/** Step 7. */
function finish({ home, keepRecord }: RetireContext, record: TaskRecord): void {
  syncBase(record.base);
  if (!keepRecord) dropRecord(home, record.id);
}
