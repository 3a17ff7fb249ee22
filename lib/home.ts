/** The home: the directory that scopes tasks. Opened by all commands, made only by spawn (home-make.ts). */
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { chmodSync, closeSync, constants, fstatSync, lstatSync, openSync, readFileSync, realpathSync } from './fs.ts';
import { assertTrusted } from './ownership.ts';
import {
  assertPlainPath,
  deriveTag,
  type Environment,
  type HomeSetting,
  homePaths,
  inFolder,
  locateHome,
} from './paths.ts';
import { hasTaskRecords } from './record-file.ts';

export interface Home {
  /** Physical. */
  readonly path: string;
  readonly config: string;
  readonly state: string;
  readonly uid: number;
  readonly tag: string;
}

/** The home, or undefined where it does not exist. A reader (`tighten` false) changes no mode. @throws TaskError CONFIG */
export function openHome(setting: HomeSetting, uid: number, tighten: boolean): Home | undefined {
  const path = resolveExisting(setting);
  if (path === undefined) return undefined;
  assertHome(setting, path, uid);
  const { state, config, homeId } = homePaths(path);
  if (!checkState(state, uid, tighten)) return undefined;
  const id = readHomeId(homeId);
  if (id === undefined) {
    assertNoOrphans(state, homeId);
    return undefined;
  }
  return { path, config, state, uid, tag: deriveTag(id, path, uid) };
}

/** For teardown and status: the home, or undefined and nothing to do. An explicit --home must exist. @throws TaskError CONFIG */
export function findHome(
  setting: HomeSetting,
  uid: number,
  env: Environment,
  tighten: boolean,
): Home | { readonly missing: string } {
  const home = openHome(setting, uid, tighten);
  if (home) return home;
  const caller = uid === 0 && env.SUDO_UID !== '0' ? env.SUDO_UID : undefined;
  const theirs = caller && `; that of the user who called sudo is ${homeOfUser(caller)}: run as that user`;
  const missing = `no home at ${setting.path} (from ${setting.source})${theirs ?? ''}`;
  if (setting.source === '--home') throw new TaskError('CONFIG', `${missing}: nothing was ever spawned there`);
  return { missing };
}

/** Where the home of another user is unless that user says otherwise: for a message only. */
function homeOfUser(uid: string): string {
  let folder: string | undefined;
  try {
    const entries = readFileSync('/etc/passwd', 'utf8').split('\n');
    folder = entries.map((line) => line.split(':')).find(([, , number]) => number === uid)?.[5];
  } catch {}
  return folder ? locateHome(undefined, { HOME: folder }).path : `another one (uid ${uid})`;
}

/** The physical path of a home that exists. @throws TaskError CONFIG */
export function resolveExisting(setting: HomeSetting): string | undefined {
  try {
    const path = unlessMissing(() => realpathSync(setting.path));
    if (path !== undefined) assertPlainPath(`what ${setting.source} ${setting.path} resolves to,`, path);
    return path;
  } catch (error) {
    if (error instanceof TaskError) throw error;
    throw new TaskError('CONFIG', `${setting.source} ${setting.path} cannot be looked at: ${messageOf(error)}`);
  }
}

/** An existing home is used as it is when it is ours and others cannot write to it. @throws TaskError CONFIG */
export function assertHome(setting: HomeSetting, path: string, uid: number): void {
  const stat = lstatSync(path);
  const home = `the home ${path} (from ${setting.source})`;
  if (!stat.isDirectory()) throw new TaskError('CONFIG', `${home} is not a directory: choose another`);
  if (stat.uid !== uid)
    throw new TaskError(
      'CONFIG',
      `${home} belongs to uid ${stat.uid}, not to ${uid}: run as its owner, or choose another`,
    );
  if ((stat.mode & 0o022) !== 0)
    throw new TaskError('CONFIG', `${home} can be written by others: chmod go-w it, or choose another`);
  assertTrusted('the home', path, uid);
}

/** state/ is a real directory of ours; its mode is tightened to 0700. False where it does not exist. @throws TaskError CONFIG */
export function checkState(state: string, uid: number, tighten: boolean): boolean {
  const stat = unlessMissing(() => lstatSync(state));
  if (!stat) return false;
  if (!stat.isDirectory() || stat.uid !== uid) {
    throw new TaskError('CONFIG', `${state} is not a directory of uid ${uid}: move it away, or choose another home`);
  }
  if (tighten && (stat.mode & 0o7777) !== 0o700) {
    try {
      chmodSync(state, 0o700);
    } catch (error) {
      throw new TaskError('CONFIG', `${state} cannot be made private: ${messageOf(error)}`);
    }
  }
  return true;
}

/** The 128 random bits of the home, or undefined. @throws TaskError CONFIG when they are malformed. */
export function readHomeId(path: string): string | undefined {
  const malformed = (what: string) => orphaned(`${path} ${what}`);
  let fd: number | undefined;
  try {
    fd = unlessMissing(() => openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK));
    if (fd === undefined) return undefined;
    if (!fstatSync(fd).isFile()) throw malformed('is not a regular file');
    const text = readFileSync(fd, 'latin1');
    if (!/^[0-9a-f]{32}\n$/.test(text)) throw malformed('is malformed');
    return text.trim();
  } catch (error) {
    throw error instanceof TaskError ? error : malformed(`cannot be read (${messageOf(error)})`);
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** Without a home-id there must be no record; it is looked for again, as another spawn may make both just now. @throws TaskError CONFIG */
export function assertNoOrphans(state: string, homeId: string): void {
  if (hasTaskRecords(state) && readHomeId(homeId) === undefined)
    throw orphaned(`${homeId} is missing while records exist`);
}

/** The home-id is never made anew while it may be in use. */
function orphaned(what: string): TaskError {
  return new TaskError(
    'CONFIG',
    `${what}: a new home-id would orphan every root of this home; put it back from a backup, or choose another home`,
  );
}

/** A file of the home's config folder. */
export function configFile(home: Home, name: string): string {
  return inFolder(home.config, name);
}
