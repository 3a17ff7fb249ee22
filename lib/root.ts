/**
 * A task's root: made by one exclusive mkdir(2), known by its identity, proven again before anything is done to it.
 * Identity is inode and birth time, the device too within one boot (design section 3: inode and device alone are none).
 */

import type { Stats } from 'node:fs';
import { basename } from 'node:path';
import { messageOf, unlessMissing } from './errors.ts';
import { chmodSync, closeSync, constants, fchmodSync, lstatSync, mkdirSync, openSync, rmdirSync } from './fs.ts';
import type { Home } from './home.ts';
import { comparePlace, type Machine } from './machine.ts';
import { O_PATH } from './o-path.ts';
import { deriveRoot, gotmpOf } from './paths.ts';
import { isBorn, type TaskRecord } from './record.ts';
import type { Birth } from './record-file.ts';
import { removeTree } from './remove.ts';

export interface Identity {
  readonly tmp_dev: string;
  readonly tmp_ino: string;
  readonly tmp_btime: string;
}

/** No identity yet: the root may or may not have been made. */
export const UNBORN: Identity = { tmp_dev: '', tmp_ino: '', tmp_btime: '' };

type BigStat = ReturnType<typeof lookAt>;

function lookAt(path: string) {
  return lstatSync(path, { bigint: true });
}

function identityOf(stat: BigStat): Identity {
  return { tmp_dev: String(stat.dev), tmp_ino: String(stat.ino), tmp_btime: String(stat.birthtimeNs) };
}

/**
 * Makes a private directory: fails on whatever exists there, follows nothing, exactly 0700 whatever umask and setgid say.
 * `arm` gets what takes it away again the moment it exists.
 */
export function makeFolder(path: string, uid: number, arm: (undo: () => unknown) => void): Identity {
  mkdirSync(path, 0o700);
  let identity: Identity | undefined;
  arm(() => (identity ? unmakeFolder(path, identity, uid) : rmdirSync(path)));
  tightenFolder(path);
  const stat = lookAt(path);
  if (!stat.isDirectory() || Number(stat.uid) !== uid || (stat.mode & 0o7777n) !== 0o700n) {
    throw new Error(`it did not become a private directory of uid ${uid}: that file system cannot hold one`);
  }
  identity = identityOf(stat);
  return identity;
}

/** Whether what was looked at is the directory of that identity; within one boot. */
export function isIdentity(stat: BigStat, { tmp_dev, tmp_ino, tmp_btime }: Identity): boolean {
  const found = identityOf(stat);
  return found.tmp_ino === tmp_ino && found.tmp_dev === tmp_dev && found.tmp_btime === tmp_btime;
}

/** 0700 for a directory of ours, through a descriptor that cannot have followed a link; gives the mode it had. */
export function tightenFolder(path: string, mode = 0o700): number {
  const had = lstatSync(path).mode & 0o7777;
  if (had === mode) return had;
  const linux = process.platform === 'linux';
  const flags = linux ? O_PATH : constants.O_RDONLY;
  const fd = openSync(path, flags | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    if (linux) chmodSync(`/proc/self/fd/${fd}`, mode);
    else fchmodSync(fd, mode);
  } finally {
    closeSync(fd);
  }
  return had;
}

/** Takes away what was made, with what came into it meanwhile, and only while it still is the directory that was made. */
async function unmakeFolder(path: string, identity: Identity, uid: number): Promise<void> {
  const stat = unlessMissing(() => lookAt(path));
  if (!stat) return;
  if (!stat.isDirectory() || !isIdentity(stat, identity)) {
    throw new Error(`${path} is no longer the directory that was made`);
  }
  const { kept } = await removeTree(path, identity, { uid, stop: () => false });
  if (kept[0]) throw new Error(`${kept[0].path}: ${kept[0].reason}`);
}

/** What was found under a record's tasktmp. */
export type RootFinding =
  | { readonly is: 'absent' }
  /** Proven to be this task's own. */
  | { readonly is: 'own'; readonly identity: Identity }
  /** Made by a launch that died before it could write its identity down: may be taken away by rmdir and nothing more. */
  | { readonly is: 'unborn' }
  /** Not proven to be this task's own: untouched. */
  | { readonly is: 'foreign'; readonly reason: string }
  /** The base is not the one of the record: nothing is known of the root. */
  | { readonly is: 'elsewhere'; readonly reason: string }
  /** It cannot be looked at. */
  | { readonly is: 'uncertain'; readonly reason: string };

/** Looks at the root of a record and proves what it is; changes nothing. */
export function inspectRoot(home: Home, record: TaskRecord, birth: Birth, here: Machine): RootFinding {
  const { base, tasktmp, id } = record;
  if (tasktmp !== deriveRoot(base, home.tag, id)) {
    return { is: 'foreign', reason: `it is not this task's own path (that is ${deriveRoot(base, home.tag, id)})` };
  }
  const sameBoot = comparePlace(record, here) === 'here';
  try {
    const folder = unlessMissing(() => lookAt(base));
    if (!folder) return { is: 'elsewhere', reason: `the base ${base} does not exist now` };
    if (
      !folder.isDirectory() ||
      String(folder.ino) !== record.base_ino ||
      (sameBoot && String(folder.dev) !== record.base_dev)
    ) {
      return {
        is: 'elsewhere',
        reason: `the base ${base} is not the one the task was made in (another mount or container?)`,
      };
    }
    const stat = unlessMissing(() => lookAt(tasktmp));
    if (!stat) return { is: 'absent' };
    if (!stat.isDirectory())
      return { is: 'foreign', reason: `it is ${describeKind(stat)}, not this task's own directory` };
    if (Number(stat.uid) !== home.uid)
      return { is: 'foreign', reason: `it belongs to uid ${stat.uid}, so it is not this task's own` };
    return isBorn(record) ? proveOwn(stat, record, sameBoot) : proveUnborn(stat, birth);
  } catch (error) {
    return { is: 'uncertain', reason: `it cannot be looked at: ${messageOf(error)}` };
  }
}

function proveOwn(stat: BigStat, record: TaskRecord, sameBoot: boolean): RootFinding {
  const found = identityOf(stat);
  const other = { is: 'foreign', reason: "another directory took its place, so it is not this task's own" } as const;
  if (found.tmp_ino !== record.tmp_ino || found.tmp_btime !== record.tmp_btime) return other;
  if (sameBoot && found.tmp_dev !== record.tmp_dev) return other;
  if (found.tmp_btime === '0' && !sameBoot) {
    return {
      is: 'foreign',
      reason:
        "its file system keeps no birth time and the machine was restarted, so it cannot be proven this task's own",
    };
  }
  return { is: 'own', identity: found };
}

/** A directory without a recorded identity is ours only when it was born after the record that announced it. */
function proveUnborn(stat: BigStat, birth: Birth): RootFinding {
  const cannot = (why: string) => {
    const reason = `the launch died before this directory's identity was written, and it cannot be proven this task's own (${why}); rmdir it yourself if it is empty`;
    return { is: 'foreign', reason } as const;
  };
  if (stat.dev !== birth.dev) return cannot('it lies on another file system than the record');
  if (stat.birthtimeNs === 0n || birth.btime === 0n) return cannot('the file system keeps no birth time');
  if (stat.birthtimeNs < birth.btime) return cannot('it is older than the record');
  return { is: 'unborn' };
}

/** Takes away an unborn root: an empty gotmp and the empty root. @throws the errno of rmdir when anything else is in it. */
export function discardUnborn(root: string): void {
  unlessMissing(() => rmdirSync(gotmpOf(root)));
  unlessMissing(() => rmdirSync(root));
}

/** What is at a path, in words. */
export function describeKind(
  stat: Pick<Stats, 'isDirectory' | 'isFile' | 'isFIFO' | 'isSocket' | 'isSymbolicLink'>,
): string {
  if (stat.isSymbolicLink()) return 'a symbolic link';
  if (stat.isDirectory()) return 'a directory';
  if (stat.isFile()) return 'a file';
  if (stat.isFIFO()) return 'a fifo';
  return stat.isSocket() ? 'a socket' : 'a device';
}

/** What stands where a root is to be made, in words, or undefined for nothing. */
export function findObstacle(root: string): string | undefined {
  const stat = unlessMissing(() => lstatSync(root));
  if (!stat) return undefined;
  const kind = describeKind(stat);
  return `${basename(root)} is already there: ${kind} of uid ${stat.uid}`;
}
