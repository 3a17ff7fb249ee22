/** The library: what the commands do, for programs. No process is ended and no environment is read at import. */
export { type ErrorCode, TaskError } from './errors.ts';
