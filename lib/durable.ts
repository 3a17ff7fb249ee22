/** Writing so that it survives a power cut: a new file complete or not at all, a folder's names on disk. */
import { errnoOf } from './errors.ts';
import { closeSync, constants, fchmodSync, fsyncSync, openSync, statfsSync, unlinkSync, writeSync } from './fs.ts';

/** Puts a folder's names on disk. File systems that cannot fsync a folder say EINVAL or ENOTSUP: nothing to do there. */
export function syncFolder(path: string): void {
  const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    fsyncSync(fd);
  } catch (error) {
    if (!['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'].includes(errnoOf(error) ?? '')) throw error;
  } finally {
    closeSync(fd);
  }
}

/** A root's absence is put on disk before its record goes, so that power loss cannot bring it back without one. */
export function syncBase(path: string): void {
  try {
    syncFolder(path);
  } catch (error) {
    // A base that may be written and not read (mode 1733) cannot be synced by us: docs/limits.md.
    if (errnoOf(error) !== 'EACCES') throw error;
  }
}

/** A new file, 0600 whatever the umask, complete and on disk; on any failure nothing of it stays. Never through a link. */
export function writeNewFile(path: string, content: string): void {
  const { O_WRONLY, O_CREAT, O_EXCL, O_NOFOLLOW } = constants;
  const fd = openSync(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0o600);
  try {
    fchmodSync(fd, 0o600);
    const bytes = Buffer.from(content);
    for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
    fsyncSync(fd);
  } catch (error) {
    unlinkSync(path);
    throw error;
  } finally {
    closeSync(fd);
  }
}

/** For a full disk or quota: how much is free there, as the end of a message; otherwise nothing. */
export function statfsText(path: string, error: unknown): string {
  if (!['ENOSPC', 'EDQUOT'].includes(errnoOf(error) ?? '')) return '';
  const { bavail, bsize, ffree } = statfsSync(path);
  return `; ${path} has ${Math.floor((bavail * bsize) / 1024)} KiB and ${ffree} inodes free: make room, or choose another place`;
}
