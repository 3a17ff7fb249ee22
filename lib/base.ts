/** The base: the existing folder in which a fresh task's root is made. Never created, changed or cleaned by us. */
import { messageOf, TaskError, unlessMissing } from './errors.ts';
import { realpathSync, statSync } from './fs.ts';
import { assertTrusted } from './ownership.ts';
import { assertPlainPath, type BaseSetting } from './paths.ts';

export interface Base {
  /** Physical. */
  readonly path: string;
  readonly dev: string;
  readonly ino: string;
}

/** @throws TaskError CONFIG, one message for each rule of design section 3. */
export function openBase(setting: BaseSetting, uid: number): Base {
  const { source, path } = setting;
  let physical: string | undefined;
  try {
    physical = unlessMissing(() => realpathSync(path));
  } catch (error) {
    throw new TaskError('CONFIG', `${source} ${path} cannot be looked at: ${messageOf(error)}`);
  }
  if (physical === undefined)
    throw new TaskError('CONFIG', `${source} ${path} does not exist: make it, or choose another`);
  assertPlainPath(`what ${source} ${path} resolves to,`, physical);
  const stat = statSync(physical, { bigint: true });
  if (!stat.isDirectory()) throw new TaskError('CONFIG', `${source} ${path} is not a directory: choose another`);
  assertTrusted(source, physical, uid);
  return { path: physical, dev: String(stat.dev), ino: String(stat.ino) };
}
