/** What a tree looks like: to prove that nothing in it was changed. */
import { lstatSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';

/** One line for each entry: path, type, mode, owner and content. */
export function snapshot(path: string): string[] {
  const stat = lstatSync(path);
  const line = `${path} ${stat.mode.toString(8)} ${stat.uid} ${stat.ino}`;
  if (stat.isDirectory()) {
    const below = readdirSync(path).sort();
    return [line, ...below.flatMap((name) => snapshot(join(path, name)))];
  }
  if (stat.isSymbolicLink()) return [`${line} -> ${readlinkSync(path)}`];
  return [stat.isFile() && stat.size < 1_000_000 ? `${line} ${readFileSync(path, 'latin1')}` : line];
}
