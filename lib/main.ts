/** The only module that prints errors, picks an exit status and ends the process. */
import { errnoOf, messageOf, TaskError } from './errors.ts';
import { BUG, SPAWN_STATUS, TEARDOWN_STATUS } from './exit.ts';
import { writeText } from './output.ts';
import { oneLine } from './text.ts';

const OLDEST_NODE = [20, 19] as const;

export type Command = 'task-spawn' | 'task-teardown' | 'task-status';

/** Runs a command's main and ends with the status it gives, or with that of what it throws. */
export async function runMain(
  command: Command,
  main: (args: readonly string[]) => Promise<number>,
  args: readonly string[],
): Promise<void> {
  // Whatever the caller's umask is: files and folders of ours are private from their first moment.
  process.umask(0o077);
  // Nobody sees a stack, and collecting one for each ENOENT costs more than the call.
  Error.stackTraceLimit = 0;
  let status: number;
  try {
    assertNode(process.versions.node);
    status = await main(args);
  } catch (error) {
    report(command, describeError(error));
    status = statusOf(command, error);
  }
  // Everything is written; there is nothing to wait for.
  process.exit(status);
}

/** @throws TaskError CONFIG */
export function assertNode(version: string): void {
  const [major = 0, minor = 0] = version.split('.').map(Number);
  if (major > OLDEST_NODE[0] || (major === OLDEST_NODE[0] && minor >= OLDEST_NODE[1])) return;
  throw new TaskError(
    'CONFIG',
    `Node ${version} is too old: put Node ${OLDEST_NODE.join('.')} or later first on PATH, or beside the installed command`,
  );
}

/** One line on standard error; where that cannot be written to, the exit status has to do. */
export function report(command: Command, line: string): void {
  try {
    writeText(2, `${command}: ${oneLine(line)}\n`);
  } catch {
    // A full disk, perhaps: there is nobody left to tell.
  }
}

/** What an error says to a person, in one line. */
export function describeError(error: unknown): string {
  if (error instanceof TaskError || errnoOf(error) !== undefined) return messageOf(error);
  return `a bug of task-spawn: ${messageOf(error)}; please report it`;
}

/** An error of the operating system that nobody gave a meaning is I/O; anything else unforeseen is a bug of ours. */
export function statusOf(command: Command, error: unknown): number {
  const table = command === 'task-spawn' ? SPAWN_STATUS : TEARDOWN_STATUS;
  if (error instanceof TaskError) return table[error.code];
  if (errnoOf(error) !== undefined) return table.IO;
  return command === 'task-spawn' ? BUG.spawn : BUG.teardown;
}
