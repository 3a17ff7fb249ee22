/** Making a private directory that is nobody else's: one exclusive mkdir(2), proven right behind it, taken back by identity. */
import { basename } from 'node:path';
import { unlessMissing } from './errors.ts';
import { chmodSync, closeSync, constants, fchmodSync, lstatSync, mkdirSync, openSync, rmdirSync } from './fs.ts';
import { type Identity, identityOf, isIdentity, lookAt } from './identity.ts';
import { describeKind } from './kind.ts';
import { O_PATH } from './o-path.ts';

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
  const { removeTree } = await import('./remove.ts');
  const { kept } = await removeTree(path, identity, { uid, stop: () => false });
  if (kept[0]) throw new Error(`${kept[0].path}: ${kept[0].reason}`);
}

/** What stands where a root is to be made, in words, or undefined for nothing. */
export function findObstacle(root: string): string | undefined {
  const stat = unlessMissing(() => lstatSync(root, { throwIfNoEntry: false }));
  if (!stat) return undefined;
  const kind = describeKind(stat);
  return `${basename(root)} is already there: ${kind} of uid ${stat.uid}`;
}
