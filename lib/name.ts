/** An id for a task that was given none: made from the command's name and four random characters. */
import { randomHex } from './random.ts';

/** Names are cut here: a root under a pin must leave room for sockets. */
const LONGEST = 24;

/** Always an id; two calls differ. */
export function nameTask(command: string): string {
  const name = command
    .slice(command.lastIndexOf('/') + 1)
    .replaceAll(/[^A-Za-z0-9_-]+/g, '-')
    .replace(/^[^A-Za-z0-9]+/, '')
    .slice(0, LONGEST);
  return `${name || 'task'}-${randomHex(2)}`;
}
