/** Making a home: 0700 and durable, its home-id published whole and once. A file of its own: needed once in a home's life. */
import { dirname } from 'node:path';
import fsExtra from 'fs-extra';
import { statfsText, syncFolder, writeNewFile } from './durable.ts';
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { linkSync, realpathSync, unlinkSync } from './fs.ts';
import { assertHome, assertNoOrphans, checkState, readHomeId, resolveExisting } from './home.ts';
import { acquireLock, type LockWait } from './lock.ts';
import { assertTrusted } from './ownership.ts';
import { assertPlainPath, type HomeSetting, homePaths } from './paths.ts';
import { randomHex } from './random.ts';

/** Makes what is missing of a home; nothing that exists is replaced. @throws TaskError CONFIG */
export async function makeHome(setting: HomeSetting, uid: number, wait: LockWait): Promise<void> {
  try {
    if (resolveExisting(setting) === undefined) {
      const near = nearestExisting(setting.path);
      assertPlainPath(`what ${setting.source} ${setting.path} resolves to,`, near);
      assertTrusted(`the home ${setting.path}: its ancestor`, near, uid);
      await makeFolder(setting.path);
    }
    const path = realpathSync(setting.path);
    assertHome(setting, path, uid);
    const { state, homeId } = homePaths(path);
    await makeFolder(state);
    checkState(state, uid, true);
    if (readHomeId(homeId) === undefined) await publishHomeId(path, wait);
  } catch (error) {
    if (error instanceof TaskError) throw error;
    const near = nearestExisting(setting.path);
    throw new TaskError(
      'CONFIG',
      `cannot make the home ${setting.path} (from ${setting.source}): ${messageOf(error)}${statfsText(near, error)}`,
    );
  }
}

/** Makes a folder and its missing parents 0700 and puts the names of all of them on disk. */
async function makeFolder(path: string): Promise<void> {
  // Its types say void; like mkdir(2) of Node it gives the first folder it made.
  const first = (await fsExtra.ensureDir(path, 0o700)) as unknown as string | undefined;
  if (first === undefined) return;
  for (let made = path; ; made = dirname(made)) {
    syncFolder(dirname(made));
    if (made === first) return;
  }
}

/** The physical path of the deepest folder on the way to a path that exists, itself included. */
function nearestExisting(path: string): string {
  for (let folder = path; ; folder = dirname(folder)) {
    const physical = unlessMissing(() => realpathSync(folder));
    if (physical !== undefined) return physical;
  }
}

/** Under a lock of its own, so that what a killed maker left under the staging name can be told from work under way. */
async function publishHomeId(home: string, wait: LockWait): Promise<void> {
  const { state, homeId, homeIdStaging, homeLock } = homePaths(home);
  const lock = await acquireLock(homeLock, wait);
  if (!lock) throw new TaskError('BUSY', `the home ${home} is being made by another task-spawn: try again`);
  try {
    if (readHomeId(homeId) !== undefined) return;
    assertNoOrphans(state, homeId);
    unlessMissing(() => unlinkSync(homeIdStaging));
    writeNewFile(homeIdStaging, `${randomHex(16)}\n`);
    linkSync(homeIdStaging, homeId);
    unlinkSync(homeIdStaging);
    syncFolder(state);
  } finally {
    lock.release({ unlink: true });
  }
}
