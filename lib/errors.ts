/** Errors: one kind, with a code from a closed set, and what the operating system's say. */
import { lazyRequire } from './lazy.ts';

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

/** What is loaded lazily is bundled with a class of its own: they are one by name. A class that extends it is itself. */
Object.defineProperty(TaskError, Symbol.hasInstance, {
  value(this: unknown, value: unknown): boolean {
    if (this !== TaskError) return Function.prototype[Symbol.hasInstance].call(this, value);
    return value instanceof Error && value.name === 'TaskError';
  },
});

/** The errno name of a thrown value ("ENOENT"), or undefined. */
export function errnoOf(error: unknown): string | undefined {
  if (isOverQuota(error)) return 'EDQUOT';
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : undefined;
}

/** Node has no name for this one: its text is "Unknown system error -122". */
function isOverQuota(error: unknown): boolean {
  if (!(error instanceof Error) || !error.message.startsWith('Unknown system error')) return false;
  const { constants } = lazyRequire('node:os') as typeof import('node:os');
  return (error as NodeJS.ErrnoException).errno === -constants.errno.EDQUOT;
}

/** What a thrown value says, in one line. */
export function messageOf(error: unknown): string {
  const raw = error instanceof Error ? error.message : String(error);
  const text = isOverQuota(error) ? raw.replace(/^.*?, /, 'EDQUOT: disk quota exceeded, ') : raw;
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
