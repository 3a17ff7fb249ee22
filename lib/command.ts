/**
 * Finding the command before anything exists: 127 not found, 126 found but not runnable (case B77). Names and PATH are
 * bytes here (latin1 text): Node's own strings cannot hold every name.
 */
import { TaskError, unlessMissing } from './errors.ts';
import { accessSync, closeSync, constants, openSync, readSync, statSync } from './fs.ts';

/** What shells search when PATH is not set. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';
/** How often the kernel lets an interpreter be a script itself. */
const SCRIPTS = 5;

export interface FoundCommand {
  /** The file as it was named or found, in latin1 text. */
  readonly file: string;
}

/**
 * Finds `name` as exec of a shell would. @throws TaskError COMMAND_NOT_FOUND or COMMAND_NOT_RUNNABLE, and IO when the
 * current directory is gone.
 */
export function findCommand(name: string, path: string | undefined): FoundCommand {
  assertFolder();
  if (name === '') throw notFound(name);
  if (name.includes('/')) {
    assertRunnable(name, name);
    return { file: name };
  }
  const candidates = (path ?? DEFAULT_PATH)
    .split(':')
    .map((folder) => (folder === '' ? `./${name}` : `${folder}/${name}`));
  const file =
    candidates.find((each) => lookAtFile(each) === 'runnable') ??
    candidates.find((each) => lookAtFile(each) !== 'missing');
  if (file === undefined) throw notFound(name);
  assertRunnable(name, file);
  return { file };
}

/** A missing current directory also makes commands "not found": said first, so that the message is true. */
function assertFolder(): void {
  try {
    process.cwd();
  } catch {
    throw new TaskError('IO', 'the current directory no longer exists: cd to one that does');
  }
}

function notFound(name: string): TaskError {
  return new TaskError('COMMAND_NOT_FOUND', `${show(name)}: command not found: check its name and PATH`);
}

function notRunnable(name: string, why: string): TaskError {
  return new TaskError('COMMAND_NOT_RUNNABLE', `${show(name)}: ${why}`);
}

function assertRunnable(name: string, file: string): void {
  switch (lookAtFile(file)) {
    case 'missing':
      throw notFound(name);
    case 'folder':
      throw notRunnable(name, 'is a directory, not a command');
    case 'barred':
      throw notRunnable(name, 'cannot be executed: check its mode (chmod +x) and mount (noexec)');
  }
  let script = file;
  for (let depth = 0; depth < SCRIPTS; depth++) {
    const interpreter = interpreterOf(script);
    if (interpreter === undefined) return;
    const found = lookAtFile(interpreter);
    if (found !== 'runnable') {
      const wrong = found === 'missing' ? 'does not exist' : 'cannot be executed';
      throw notRunnable(name, `its interpreter ${show(interpreter)} ${wrong}: check the first line of ${show(script)}`);
    }
    script = interpreter;
  }
}

/** The interpreter that a script's first line names, or undefined: no script, or not to be read. */
function interpreterOf(file: string): string | undefined {
  let fd: number;
  try {
    fd = openSync(bytes(file), constants.O_RDONLY | constants.O_NONBLOCK);
  } catch {
    return undefined;
  }
  try {
    const head = Buffer.alloc(256);
    const text = head.toString('latin1', 0, readSync(fd, head, 0, head.length, 0));
    return /^#![ \t]*([^ \t\n\0]+)/.exec(text)?.[1];
  } catch {
    return undefined;
  } finally {
    closeSync(fd);
  }
}

/** What a file is to exec; one that cannot be looked at is there and barred (exec says EACCES). */
function lookAtFile(file: string): 'missing' | 'folder' | 'barred' | 'runnable' {
  try {
    const stat = unlessMissing(() => statSync(bytes(file), { throwIfNoEntry: false }));
    if (!stat) return 'missing';
    if (stat.isDirectory()) return 'folder';
    // The cheap question first: this is asked for each folder of PATH.
    if (!stat.isFile()) return 'barred';
    accessSync(bytes(file), constants.X_OK);
    return 'runnable';
  } catch {
    return 'barred';
  }
}

function bytes(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

function show(latin1: string): string {
  const text = bytes(latin1).toString();
  return /^[\w@%+=:,./~-]+$/.test(text) ? text : JSON.stringify(text);
}
