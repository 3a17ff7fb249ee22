/**
 * The one error of this project: why an operation stopped, from a closed set.
 * exit.ts gives each code its status; the message is one line: what, where, what to do next.
 */
export type ErrorCode =
  /** The arguments are wrong. */
  | 'USAGE'
  /** A record that cannot be read, or cannot be trusted. */
  | 'RECORD'
  /** Something that was to end or go is still there. */
  | 'SURVIVED'
  /** The operating system refused: disk full, I/O error. */
  | 'IO'
  /** True later, perhaps: running, locked, another mount at the base. */
  | 'BUSY'
  /** A path or an identity that is not this task's own. */
  | 'NOT_OURS'
  /** The home or the base cannot be used. */
  | 'CONFIG'
  /** The command is not there. */
  | 'COMMAND_NOT_FOUND'
  /** The command is there and cannot be run. */
  | 'COMMAND_NOT_RUNNABLE'
  /** A signal, or the end of the launching shell, came before the command was started. */
  | 'ABORTED';

export class TaskError extends Error {
  override readonly name = 'TaskError';
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** The errno name of a thrown value ("ENOENT"), or undefined. */
export function errnoOf(error: unknown): string | undefined {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** What a thrown value says, in one line. */
export function messageOf(error: unknown): string {
  const text = error instanceof Error ? error.message : String(error);
  return text.replaceAll(/\s*[\r\n]\s*/g, ' ');
}

/** The value, or undefined where the path (or a folder on its way) does not exist; anything else is thrown. */
export function unlessMissing<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === 'ENOENT' || errno === 'ENOTDIR') return undefined;
    throw error;
  }
}
