/** Presence flags: files of the home's config folder whose being there is all that counts. */
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { statSync } from './fs.ts';
import { configFile, type Home } from './home.ts';

/** A regular file, or a link to one, is on; its content is ignored; a directory or nothing is off. @throws TaskError CONFIG */
export function hasFlag(home: Home, name: string): boolean {
  const path = configFile(home, name);
  try {
    return unlessMissing(() => statSync(path, { throwIfNoEntry: false }))?.isFile() ?? false;
  } catch (error) {
    throw new TaskError('CONFIG', `the flag ${path} cannot be looked at: ${messageOf(error)}`);
  }
}
