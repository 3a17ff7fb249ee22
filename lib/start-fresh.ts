/** Step 3 of a spawn (design section 6) for a new task: everything is written down before it exists, armed with its way back. */
import { openBase } from './base.ts';
import { statfsText, syncBase } from './durable.ts';
import { errnoOf, messageOf, TaskError } from './errors.ts';
import { findObstacle, makeFolder } from './folder.ts';
import type { Home } from './home.ts';
import { type Identity, UNBORN } from './identity.ts';
import type { Launch, SpawnContext, SpawnRequest } from './launch.ts';
import { deriveRoot, gotmpOf } from './paths.ts';
import { randomHex } from './random.ts';
import { applySettings, type Entry, formatEntries, formatTime, type TaskRecord } from './record.ts';
import { dropRecord, publishRecord, readRecord, replaceRecord } from './record-file.ts';
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
    created_at: formatTime(context.now()),
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

/** One exclusive mkdir, armed the moment it succeeds. */
export function claimFolder({ trap, uid }: SpawnContext, path: string, base: string): Identity {
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
