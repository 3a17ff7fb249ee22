import { execFileSync } from 'node:child_process';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { END_MARK, formatLaunch, formatParent, formatPrint, quote } from '../lib/plan.ts';
import { which } from './helpers/shells.ts';

const NO_REPAIR = { unset: [], set: [] };
const plan = {
  shift: 2,
  command: 'make',
  file: '/usr/bin/make',
  set: new Map([['A', "it's"]]),
  unset: [] as string[],
  repair: NO_REPAIR,
};
/** The `set --` line, or undefined where the shell's own exec will do. */
const prefix = (changes: Partial<typeof plan>) =>
  formatLaunch({ ...plan, ...changes })
    .split('\n')
    .find((line) => line.startsWith('set -- '));

const SHELLS = [['dash'], ['bash', '--posix'], ['busybox', 'sh']].filter(([name]) => which(name as string));

test('a plan exports, shifts and ends with its mark', () => {
  expect(formatLaunch(plan)).toBe(`export A='it'\\''s'\nshift 2\n${END_MARK}\n`);
  expect(formatLaunch({ ...plan, unset: ['B'], hold: { root: '/tmp/x y', fd: 9, flock: '/usr/bin/flock' } })).toBe(
    `unset B\nexport A='it'\\''s'\nshift 2\n{ command exec 9<'/tmp/x y' && { '/usr/bin/flock' -s -n 9 || exec 9<&-; }; } 2>/dev/null || :\n${END_MARK}\n`,
  );
  expect(formatPrint('')).toBe(`exit 0\n${END_MARK}\n`);
  expect(formatPrint('false\n', 125)).toBe(`printf '%s' 'false\n' || exit 125\nexit 125\n${END_MARK}\n`);
  expect(formatPrint('text\n')).toBe(`printf '%s' 'text\n' || exit 125\nexit 0\n${END_MARK}\n`);
});

test('env(1) stands before what the shell itself would not launch exactly, and nice(1) before a "=" in the name', () => {
  expect(prefix({})).toBeUndefined();
  expect(prefix({ file: './make' })).toBe(`set -- '/usr/bin/env' '--' "$@"`);
  expect(prefix({ command: '-x', file: '/bin/-x' })).toBe(`set -- '/usr/bin/env' '--' "$@"`);
  expect(prefix({ command: 'a=b' })).toBeUndefined();
  expect(prefix({ command: 'a=b', file: './a=b' })).toBe(`set -- '/usr/bin/env' '--' 'nice' '-n' '0' '--' "$@"`);
  const repair = { unset: ['PWD'] as never[], set: ['a.b=1'] as never[] };
  expect(prefix({ repair })).toBe(`set -- '/usr/bin/env' '-u' 'PWD' '--' 'a.b=1' "$@"`);
});

test('the plan of a parent hands over what was blanked, and its own words before the command', () => {
  const parent = {
    shift: 3,
    repair: NO_REPAIR,
    words: ['/bin/node', 'rm.cjs'],
    carried: ['B'],
    options: ['--pin', 'x'],
  };
  expect(formatParent(parent)).toBe(
    ['shift 3', `set -- '/bin/node' 'rm.cjs' "\${B+B=$B}" '--pin' 'x' '--' "$@"`, 'unset B', END_MARK, ''].join('\n'),
  );
});

describe.each(SHELLS.map((words) => ({ words, name: words.join(' ') })))('under $name', ({ words }) => {
  test.for(['C', 'C.UTF-8'])('A14 quoted bytes are one word again, in the locale %s', (locale) => {
    const word = fc
      .array(
        fc.oneof(fc.integer({ min: 1, max: 255 }), fc.constantFrom(...Buffer.from('\'"\\$`\n\t *?[]{}~!#&|;<>()'))),
      )
      .map((bytes) => Buffer.from(bytes).toString('latin1'));
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), (list) => {
        const [file, ...args] = words as [string, ...string[]];
        const input = Buffer.from(`printf '%s\\0' ${list.map(quote).join(' ')}`, 'latin1');
        const output = execFileSync(file, [...args, '-s'], { input, env: { ...process.env, LC_ALL: locale } });
        expect(output.toString('latin1')).toBe(list.map((text) => `${text}\0`).join(''));
      }),
      {
        numRuns: 40,
        examples: [[[Array.from({ length: 255 }, (_, i) => String.fromCharCode(i + 1)).join('')]], [["''", '', "'"]]],
      },
    );
  });
});
