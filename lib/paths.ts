/**
 * The shared derivation: from settings and an id to every path of a task. Both commands use it; nothing else in the
 * tree spells the names below. Pure: it looks at no file.
 */
import { resolve } from 'node:path';
import { TaskError } from './errors.ts';
import { sha256 } from './sha256.ts';

export type Environment = Readonly<Record<string, string | undefined>>;

const ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;

/** Whether a text is a task's id: 1 to 64 of A-Z a-z 0-9 . _ -, also fit to be a part of a git ref (case B118). */
export function isTaskId(text: string): boolean {
  return ID.test(text) && !text.includes('..') && !text.endsWith('.') && !text.endsWith('.lock');
}

/** @throws TaskError USAGE for anything that is not an id. */
export function assertTaskId(text: string): void {
  if (isTaskId(text)) return;
  throw new TaskError(
    'USAGE',
    `the id ${JSON.stringify(text)} is not usable: 1 to 64 letters, digits, ".", "_" or "-", beginning with a letter or digit, without "..", not ending in "." or ".lock"`,
  );
}

/** Refuses, by name, a setting that could not be written down and read back byte for byte. */
export function assertPlainPath(name: string, path: string): void {
  const next = 'choose another path';
  if (path === '') throw new TaskError('CONFIG', `${name} is empty: leave it out, or name a path`);
  if (path.startsWith('~'))
    throw new TaskError('CONFIG', `${name} ${path} begins with "~", which nobody expanded: write the path out`);
  if (path.includes('\uFFFD'))
    throw new TaskError('CONFIG', `${name} ${JSON.stringify(path)} is not valid UTF-8: ${next}`);
  if (/[\0\r\n]/.test(path))
    throw new TaskError('CONFIG', `${name} ${JSON.stringify(path)} holds a line break: ${next}`);
}

export interface HomeSetting {
  /** Absolute, not yet resolved. */
  readonly path: string;
  /** What named it, for messages: "--home", "FM_HOME", … */
  readonly source: string;
}

/** Where the home is: `--home`, else FM_HOME, else the XDG state folder (a relative XDG_STATE_HOME is ignored, as XDG says). */
export function locateHome(option: string | undefined, env: Environment): HomeSetting {
  const [source, path] = option !== undefined ? (['--home', option] as const) : (['FM_HOME', env.FM_HOME] as const);
  if (path !== undefined) return settle(source, path);
  const xdg = env.XDG_STATE_HOME?.startsWith('/') ? env.XDG_STATE_HOME : undefined;
  if (!xdg && !env.HOME) {
    throw new TaskError('CONFIG', 'no home: HOME is not set; give --home DIR or set FM_HOME');
  }
  return xdg ? settle('XDG_STATE_HOME', `${xdg}/task-spawn`) : settle('HOME', `${env.HOME}/.local/state/task-spawn`);
}

function settle(source: string, path: string): HomeSetting {
  assertPlainPath(source, path);
  try {
    return { source, path: isTidy(path) ? path : resolve(path) };
  } catch {
    throw new TaskError(
      'CONFIG',
      `${source} ${path} is relative and the current directory no longer exists: give it in full`,
    );
  }
}

/** Whether resolve() has nothing to do: it is asked at each start, and most often this is the answer. */
function isTidy(path: string): boolean {
  return path.startsWith('/') && !/\/\.{0,2}(\/|$)/.test(path);
}

export interface BaseSetting {
  readonly path: string;
  readonly source: string;
}

/** Where a fresh task's root goes: `--base`, else FM_TASK_TMP_BASE, else /tmp. Never the caller's TMPDIR. */
export function locateBase(option: string | undefined, env: Environment): BaseSetting {
  const [source, path] =
    option !== undefined
      ? ['--base', option]
      : env.FM_TASK_TMP_BASE !== undefined
        ? ['FM_TASK_TMP_BASE', env.FM_TASK_TMP_BASE]
        : ['the base', '/tmp'];
  assertPlainPath(source, path);
  if (!path.startsWith('/')) {
    throw new TaskError('CONFIG', `${source} ${path} is relative: give the base as an absolute path`);
  }
  return { path, source };
}

/**
 * The path of a name in a folder, which is physical. (join() reads both letter by letter, in code that is cold at each
 * start: a millisecond in all.)
 */
export function inFolder(folder: string, name: string): string {
  return folder === '/' ? `/${name}` : `${folder}/${name}`;
}

/** The folders and files of a home. */
export function homePaths(home: string) {
  const state = inFolder(home, 'state');
  return {
    config: inFolder(home, 'config'),
    state,
    homeId: inFolder(state, 'home-id'),
    // No id begins or ends so: these cannot be a task's.
    homeIdStaging: inFolder(state, '.home-id'),
    homeLock: inFolder(state, '.lock'),
  };
}

/** The tag of a home: two homes, two users and two containers that call their homes alike never share one. */
export function deriveTag(homeId: string, home: string, uid: number): string {
  return sha256(`${homeId}\0${home}\0${uid}`).slice(0, 8);
}

/** The root of a task. The tag is of fixed length, so that no two pairs of tag and id give one name. */
export function deriveRoot(base: string, tag: string, id: string): string {
  return inFolder(base, `${rootPrefix(tag)}${id}`);
}

/** What the names of all roots of a home begin with; for listing only, never for removing. */
export function rootPrefix(tag: string): string {
  return `fm-${tag}-`;
}

/** Where a Go tool puts its scratch inside a root. */
export function gotmpOf(root: string): string {
  return inFolder(root, 'gotmp');
}

export interface TaskPaths {
  /** The record. */
  readonly record: string;
  /** The record under the name that means "removing", for a disk too full to write that. */
  readonly removing: string;
  /** The one name under which a new record is written. */
  readonly staging: string;
  readonly lock: string;
}

const RECORD = '.meta';
const REMOVING = '.meta.removing';

export function taskPaths(state: string, id: string): TaskPaths {
  return {
    record: inFolder(state, id + RECORD),
    removing: inFolder(state, id + REMOVING),
    staging: inFolder(state, `${id}.meta.new`),
    lock: inFolder(state, `${id}.lock`),
  };
}

/** The id whose record a file of the state folder is, or undefined. */
export function recordId(fileName: string): string | undefined {
  for (const suffix of [REMOVING, RECORD]) {
    if (fileName.endsWith(suffix)) return fileName.slice(0, -suffix.length);
  }
  return undefined;
}
