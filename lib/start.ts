/**
 * Step 3 of a spawn (design section 6): what a new task, or a relaunch, makes. Everything is written down before it
 * exists and armed with what takes it back; both give the record that is to be published last.
 */
import { openBase } from './base.ts';
import { statfsText, syncBase } from './durable.ts';
import { errnoOf, messageOf, TaskError, unlessMissing } from './errors.ts';
import { lstatSync } from './fs.ts';
import type { Home } from './home.ts';
import type { Launch, SpawnContext, SpawnRequest } from './launch.ts';
import { deriveRoot, gotmpOf } from './paths.ts';
import { randomHex } from './random.ts';
import { applySettings, type Entry, formatEntries, type TaskRecord } from './record.ts';
import { type Birth, dropRecord, publishRecord, readRecord, replaceRecord } from './record-file.ts';
import { discardUnborn, findObstacle, type Identity, inspectRoot, makeFolder, tightenFolder, UNBORN } from './root.ts';
import { assertSocketRoom } from './socket-room.ts';

/** For a new task: the record first, then the root. Gives the record to publish. */
export async function startFresh(
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

/** For a dead task: its own proven root, or a new one that the record announces first. Gives the record to publish. */
export async function startAgain(
  context: SpawnContext,
  home: Home,
  request: SpawnRequest,
  launch: Launch,
  start: { readonly record: TaskRecord; readonly birth: Birth },
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
export function withdrawRecord(home: Home, { id, base }: TaskRecord, notes: readonly Entry[]): void {
  syncBase(base);
  if (notes.length === 0) dropRecord(home, id);
  else if (readRecord(home, id).kind !== 'notes') replaceRecord(home, id, formatEntries(notes));
}
