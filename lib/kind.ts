import type { Stats } from 'node:fs';

/** What is at a path, in words. */
export function describeKind(
  stat: Pick<Stats, 'isDirectory' | 'isFile' | 'isFIFO' | 'isSocket' | 'isSymbolicLink'>,
): string {
  if (stat.isSymbolicLink()) return 'a symbolic link';
  if (stat.isDirectory()) return 'a directory';
  if (stat.isFile()) return 'a file';
  if (stat.isFIFO()) return 'a fifo';
  return stat.isSocket() ? 'a socket' : 'a device';
}
