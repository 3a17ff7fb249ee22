/** Step 3 of a spawn (design section 6) for a dead task: its own proven root, or a new one that the record announces first. */
import { openBase } from './base.ts';
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { tightenFolder } from './folder.ts';
import { lstatSync } from './fs.ts';
import type { Home } from './home.ts';
import { type Identity, UNBORN } from './identity.ts';
import type { Launch, SpawnContext, SpawnRequest } from './launch.ts';
import { gotmpOf } from './paths.ts';
import { applySettings, type TaskRecord } from './record.ts';
import { type Birth, publishRecord } from './record-file.ts';
import { discardUnborn, inspectRoot } from './root.ts';
import { assertSocketRoom } from './socket-room.ts';
import { claimFolder } from './start-fresh.ts';

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
