/** Mount points from /proc/self/mountinfo: case B47. */
import { execFileSync } from 'node:child_process';
import { describe, expect, test } from 'vitest';
import { listMountsBelow, parseMountPoints } from '../lib/mounts.ts';
import { isRoot, test as withSandbox } from './helpers/sandbox.ts';

const line = (mount: string) => `36 35 98:0 /mnt1 ${mount} rw,noatime master:1 - ext3 /dev/root rw,errors=continue\n`;

describe('parseMountPoints', () => {
  test('decodes blank, tab, line break and backslash', () => {
    const text = [String.raw`/a\040b`, String.raw`/a\011b`, String.raw`/a\012b`, String.raw`/a\134b`]
      .map(line)
      .join('');
    expect(parseMountPoints(text)).toEqual(['/a b', '/a\tb', '/a\nb', '/a\\b']);
  });

  test('decodes once: an encoded backslash before digits stays a backslash', () => {
    expect(parseMountPoints(line(String.raw`/a\134040`))).toEqual([String.raw`/a\040`]);
  });

  test('keeps other bytes as they are', () => {
    expect(parseMountPoints(line('/\xc3\xa9/\xff#'))).toEqual(['/\xc3\xa9/\xff#']);
  });

  test('gives one for each line, in order, and nothing for nothing', () => {
    expect(parseMountPoints('')).toEqual([]);
    expect(parseMountPoints(line('/') + line('/proc'))).toEqual(['/', '/proc']);
  });
});

describe('listMountsBelow', () => {
  test('finds the mount at a path, and nothing below a path without one', () => {
    expect(listMountsBelow('/proc')).toContain('/proc');
    expect(listMountsBelow('/proc/self/no-such')).toEqual([]);
    // A name that only begins like a mount point is not below it, nor the other way round.
    expect(listMountsBelow('/pro')).toEqual([]);
    expect(listMountsBelow('/procx')).toEqual([]);
  });

  withSandbox.skipIf(!isRoot)('finds mounts with any name, as the kernel writes them', ({ sandbox }) => {
    const name = 'a b\tc\nd\\e\\040é';
    const script = `mkdir "$1/$2" && mount -t tmpfs tmpfs "$1/$2" && cat /proc/self/mountinfo`;
    const text = execFileSync('unshare', ['-m', 'sh', '-c', script, 'sh', sandbox.base, name], { encoding: 'latin1' });
    const expected = Buffer.from(`${sandbox.base}/${name}`).toString('latin1');
    expect(parseMountPoints(text)).toContain(expected);
  });
});
