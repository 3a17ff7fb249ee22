/** With a pin on, programs put Unix sockets into the root: enough of the kernel's limit must be left for their names. */
import { TaskError } from './errors.ts';

/** Bytes that a socket's path may have (sun_path without its final zero). */
const LIMIT = process.platform === 'darwin' ? 103 : 107;
/** Bytes that must be left for the name, the "/" aside (cases B11 to B15). */
const NAME = 45;

/** @throws TaskError CONFIG for a root that is too long. Bytes are counted, not characters. */
export function assertSocketRoom(root: string): void {
  const left = LIMIT - Buffer.byteLength(root) - 1;
  if (left >= NAME) return;
  throw new TaskError(
    'CONFIG',
    `${root} leaves ${Math.max(left, 0)} bytes for the name of a Unix socket, and ${NAME} are needed under a pin: choose a shorter id or --base, or --no-pin`,
  );
}
