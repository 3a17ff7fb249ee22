/** Making a home: 0700 and durable, its home-id published whole and once. A file of its own: needed once in a home's life. */
import { randomBytes } from 'node:crypto';
import { dirname } from 'node:path';
import fsExtra from 'fs-extra';
import { statfsText, syncFolder, writeNewFile } from './durable.ts';
import { errnoOf, messageOf, TaskError, unlessMissing } from './errors.ts';
import { linkSync, realpathSync, unlinkSync } from './fs.ts';
import { assertHome, checkState, orphaned, readHomeId, resolveExisting } from './home.ts';
import { assertTrusted } from './ownership.ts';
import { type HomeSetting, homePaths } from './paths.ts';
import { hasTaskRecords } from './record-file.ts';

/** Makes what is missing of a home; nothing that exists is replaced. @throws TaskError CONFIG */
export async function makeHome(setting: HomeSetting, uid: number): Promise<void> {
  try {
    if (resolveExisting(setting) === undefined) {
      assertTrusted(`the home ${setting.path}: its ancestor`, nearestAncestor(setting.path), uid);
      await makeFolder(setting.path);
    }
    const path = realpathSync(setting.path);
    assertHome(setting, path, uid);
    const { state, homeId } = homePaths(path);
    await makeFolder(state);
    checkState(state, uid, true);
    if (readHomeId(homeId) === undefined) publishHomeId(state, homeId);
  } catch (error) {
    if (error instanceof TaskError) throw error;
    const near = nearestAncestor(setting.path);
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

function nearestAncestor(path: string): string {
  for (let folder = dirname(path); ; folder = dirname(folder)) {
    const physical = unlessMissing(() => realpathSync(folder));
    if (physical !== undefined) return physical;
  }
}

function publishHomeId(state: string, homeId: string): void {
  if (hasTaskRecords(state)) throw orphaned(`${homeId} is missing while records exist`);
  const staging = `${homeId}.${randomBytes(8).toString('hex')}`;
  writeNewFile(staging, `${randomBytes(16).toString('hex')}\n`);
  try {
    linkSync(staging, homeId);
  } catch (error) {
    // Another spawn published first: its id is the home's.
    if (errnoOf(error) !== 'EEXIST') throw error;
  } finally {
    unlinkSync(staging);
  }
  syncFolder(state);
}
