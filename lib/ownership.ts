/** sshd's rule for a path: nobody but root and us can replace any part of it (design section 3). */
import { dirname } from 'node:path';
import { TaskError } from './errors.ts';
import { lstatSync } from './fs.ts';

/**
 * Checks a physical (resolved) path and all its ancestors: owned by root or us and, where group or others can write,
 * sticky. @throws TaskError CONFIG that names the offending folder.
 */
export function assertTrusted(what: string, path: string, uid: number): void {
  for (let folder = path; ; folder = dirname(folder)) {
    const { uid: owner, mode } = lstatSync(folder);
    const whose = folder === path ? `${what} ${path}` : `${what} ${path}: its ancestor ${folder}`;
    if (owner !== 0 && owner !== uid) {
      throw new TaskError('CONFIG', `${whose} belongs to uid ${owner}, who could replace it: choose another place`);
    }
    if ((mode & 0o022) !== 0 && (mode & 0o1000) === 0) {
      throw new TaskError(
        'CONFIG',
        `${whose} can be written by others and is not sticky: chmod go-w or +t it, or choose another place`,
      );
    }
    if (folder === dirname(folder)) return;
  }
}
