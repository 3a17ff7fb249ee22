/**
 * The root hold: a shared flock(2) on the root, on a descriptor that the command inherits. It keeps systemd-tmpfiles from
 * ageing a live root, and lives exactly as long as any process that inherited it. Linux, where flock(1) exists.
 */
import { readdirSync, readlinkSync } from './fs.ts';

/** The shell names descriptors by one digit; 0 to 2 are the command's own. */
const HIGHEST = 9;
const LOWEST = 3;

/**
 * The highest free descriptor of a shell, or undefined. While the shell waits for Node it also holds the other end of
 * Node's standard output, which it will have closed by then: that one counts as free.
 */
export function findFreeDescriptor(shell: number): number | undefined {
  try {
    const used = new Set(readdirSync(`/proc/${shell}/fd`));
    const plan = readlinkSync('/proc/self/fd/1');
    for (let fd = HIGHEST; fd >= LOWEST; fd--) {
      if (!used.has(String(fd)) || readlinkSync(`/proc/${shell}/fd/${fd}`) === plan) return fd;
    }
  } catch {
    // Not Linux, or a shell that cannot be looked at: no hold.
  }
  return undefined;
}
