/** Command lines: durations, and what parseOptions makes of an error. */
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lockWait, parseDuration, parseOptions } from '../lib/cli/options.ts';
import { LOCK_WAIT } from '../lib/lock.ts';

describe('parseDuration', () => {
  test('a number with an optional unit, in milliseconds', () => {
    const units = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 };
    fc.assert(
      fc.property(fc.nat(100_000), fc.constantFrom(...Object.entries(units)), (number, [unit, seconds]) => {
        expect(parseDuration('x', `${number}${unit}`)).toBe(number * seconds * 1000);
      }),
    );
    expect(parseDuration('x', '0.2')).toBeCloseTo(200);
    expect(parseDuration('x', '1.5h')).toBe(5_400_000);
  });

  test('anything else is refused by name', () => {
    const isDuration = /^\d+(\.\d+)?[smhd]?$/;
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.stringMatching(/^[-+.0-9esmhd ]{0,8}$/)).filter((text) => !isDuration.test(text)),
        (text) => {
          expect(() => parseDuration('timeout', text)).toThrow(expect.objectContaining({ code: 'USAGE' }));
          expect(() => parseDuration('timeout', text)).toThrow(/^--timeout ".*" is not a duration/s);
        },
      ),
    );
    for (const text of ['', ' 1', '1 ', '-1', '1e3', '1ms', '.5', '5.', '1m30s', 'Infinity', '0x10', '1\n']) {
      expect(() => parseDuration('timeout', text)).toThrow('is not a duration');
    }
  });

  test('a busy lock is waited for 5 s unless told', () => {
    expect([lockWait(undefined), lockWait('0'), lockWait('2m')]).toEqual([LOCK_WAIT, 0, 120_000]);
    expect(LOCK_WAIT).toBe(5000);
  });
});

describe('parseOptions', () => {
  const options = { home: { type: 'string' }, json: { type: 'boolean' } } as const;

  test('options and positionals, in any order, and "--" ends the options', () => {
    const { values, positionals } = parseOptions(['a', '--json', '--home=x', '--', '--json', 'b'], options);
    expect({ ...values }).toEqual({ json: true, home: 'x' });
    expect(positionals).toEqual(['a', '--json', 'b']);
  });

  test.each([[['--bad']], [['-x']], [['--home']], [['--json=1']], [['--home', '--json']]])(
    '%j is one line of usage',
    (args) => {
      expect(() => parseOptions(args, options)).toThrow(expect.objectContaining({ code: 'USAGE' }));
      expect(() => parseOptions(args, options)).toThrow(/^[^\n]+: see --help$/);
    },
  );
});
