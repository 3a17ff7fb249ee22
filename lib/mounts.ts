/** Mount points, from the kernel's own list: a tree with one at or below it is not removed at all (case B47). */
import { readFileSync } from './fs.ts';

/** The mount points at or below a physical path. Never looks at the paths themselves: a dead mount hangs. */
export function listMountsBelow(path: string): string[] {
  if (process.platform !== 'linux') return [];
  const top = Buffer.from(path).toString('latin1');
  return parseMountPoints(readFileSync('/proc/self/mountinfo', 'latin1'))
    .filter((mount) => mount === top || mount.startsWith(`${top}/`))
    .map((mount) => Buffer.from(mount, 'latin1').toString());
}

/** The fifth field of each line, its octal escapes (blank, tab, line break, backslash) decoded; as latin1 bytes. */
export function parseMountPoints(mountinfo: string): string[] {
  return mountinfo
    .split('\n')
    .filter(Boolean)
    .map((line) => line.split(' ')[4] ?? '')
    .map((field) =>
      field.replaceAll(/\\([0-7]{3})/g, (_, octal: string) => String.fromCharCode(Number.parseInt(octal, 8))),
    );
}
