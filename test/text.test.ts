/** Numbers and paths as people read them. */
import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { formatAge, formatBytes, formatCount, oneLine, printable, quoteForPeople, shorten } from '../lib/text.ts';

test.each([
  [0, '0 B'],
  [1, '1 B'],
  [1023, '1023 B'],
  [1024, '1.0 KiB'],
  [1536, '1.5 KiB'],
  [102_400, '100 KiB'],
  [5 * 1024 ** 2, '5.0 MiB'],
  [3 * 1024 ** 4, '3.0 TiB'],
  [5000 * 1024 ** 4, '5000 TiB'],
])('formatBytes(%i) is %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text);
});

test.each([
  [-5, '0s'],
  [0, '0s'],
  [59_999, '59s'],
  [60_000, '1m'],
  [3_599_000, '59m'],
  [7_200_000, '2h'],
  [86_400_000, '1d'],
  [864_000_000, '10d'],
])('formatAge(%i) is %s', (ms, text) => {
  expect(formatAge(ms)).toBe(text);
});

test('formatCount knows one from many', () => {
  expect([0, 1, 2].map((count) => formatCount(count, 'entry', 'entries'))).toEqual([
    '0 entries',
    '1 entry',
    '2 entries',
  ]);
});

describe('quoteForPeople', () => {
  test('leaves a plain path as it is', () => {
    expect(quoteForPeople('/tmp/fm-0123abcd-a.b_c-d')).toBe('/tmp/fm-0123abcd-a.b_c-d');
  });

  test('a shell reads back what was quoted', () => {
    const paths = fc.sample(
      fc.string({ unit: 'binary', maxLength: 30 }).filter((text) => !text.includes('\0')),
      200,
    );
    paths.push("it's", '$(x)', '`x`', 'a b', '', '\n', '-rf', '*', "'\\''");
    const words = paths.map(quoteForPeople).join(' ');
    const read = execFileSync('sh', ['-c', `printf '%s\\0' ${words}`], { encoding: 'utf8' });
    expect(read.split('\0').slice(0, -1)).toEqual(paths.map((path) => Buffer.from(path).toString()));
  });
});

test('a message is one line, and tells a terminal nothing', () => {
  expect(oneLine('a\r\nb\x1b[31mc\x9bd\x7fe\u2028f é')).toBe('a b [31mc d e f é');
  expect(printable('a\n\x1b[31mé')).toBe('a??[31mé');
  expect(shorten('/x'.repeat(5000))).toHaveLength(1001);
  expect(shorten('/x')).toBe('/x');
});
