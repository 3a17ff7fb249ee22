import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  applySettings,
  clashingKey,
  type Entry,
  formatEntries,
  formatRecord,
  formatTime,
  parseRecord,
  parseSetting,
  type TaskRecord,
} from '../lib/record.ts';

const hex = fc.stringMatching(/^[0-9a-f]{32}$/);
const number = fc.nat().map(String);
const line = fc.string({ unit: 'grapheme' }).map((text) => text.replaceAll(/[\0\r\n\uFFFD]/g, ''));
const path = line.map((text) => `/${text}`);
const key = fc.stringMatching(/^[a-z][a-z0-9_]{0,20}$/).filter((text) => clashingKey([[text, '']]) === undefined);
const extra = fc.uniqueArray(fc.tuple(key, line), { selector: ([name]) => name });
const identity = fc.oneof(fc.tuple(number, number, number), fc.constant(['', '', ''] as [string, string, string]));

const record: fc.Arbitrary<TaskRecord> = fc
  .record({
    schema: fc.constant('1'),
    id: fc.constant('x'),
    token: hex,
    spawn_gen: hex,
    state: fc.constantFrom('creating', 'active', 'held', 'removing', 'leftover'),
    created_at: fc
      .date({ noInvalidDate: true, min: new Date(0), max: new Date(4e12) })
      .map((date) => date.toISOString()),
    home: path,
    base: path,
    base_dev: number,
    base_ino: number,
    tasktmp: path,
    identity,
    tmpdir_pin: fc.constantFrom('0', '1'),
    host: fc.constantFrom('- node', `${'a'.repeat(32)} n`),
    boot_id: fc.uuid(),
    pid_ns: fc.constantFrom('-', '4026531836'),
    pid: number,
    pid_start: number,
    tty_nr: number,
    command: line.map((text) => JSON.stringify(text)),
    extra,
  })
  .map(
    ({ identity: [tmp_dev, tmp_ino, tmp_btime], ...rest }) => ({ ...rest, tmp_dev, tmp_ino, tmp_btime }) as TaskRecord,
  );

describe('a record', () => {
  test('is read back as it was written', () => {
    fc.assert(
      fc.property(record, (written) => {
        const text = formatRecord(written);
        expect(text.startsWith('schema=1\n')).toBe(true);
        const parsed = parseRecord(Buffer.from(text), 'x');
        expect(parsed).toEqual({ kind: 'task', record: written });
        expect(formatRecord((parsed as { record: TaskRecord }).record)).toBe(text);
      }),
    );
  });

  test('cut off anywhere within our own keys is refused', () => {
    fc.assert(
      fc.property(record, fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (written, part) => {
        const bytes = Buffer.from(formatRecord({ ...written, extra: [] }));
        expect(() => parseRecord(bytes.subarray(0, Math.floor(part * bytes.length)), 'x')).toThrow();
      }),
    );
  });

  test('of any bytes never comes out as a task by chance', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 300 }), (bytes) => {
        try {
          expect(parseRecord(Buffer.from(bytes), 'x').kind).toBe('notes');
        } catch (error) {
          expect((error as Error).message).toMatch(/./);
        }
      }),
    );
  });
});

test('notes are kept byte for byte', () => {
  const free = fc
    .stringMatching(/^[^=\0\r\n\uFFFD]{1,20}$/)
    .filter((name) => clashingKey([[name, '']]) === undefined && !/[\uD800-\uDFFF]/.test(name));
  fc.assert(
    fc.property(fc.array(fc.tuple(free, line), { minLength: 1 }), (entries) => {
      const text = formatEntries(entries);
      const parsed = parseRecord(Buffer.from(text), 'x');
      expect(parsed.kind).toBe('notes');
      expect(formatEntries((parsed as { entries: readonly Entry[] }).entries)).toBe(text);
    }),
  );
});

describe('settings', () => {
  test('replace in place, and the last of a key counts', () => {
    const entries: Entry[] = [
      ['a', '1'],
      ['b', '2'],
    ];
    expect(
      applySettings(entries, [
        ['c', '3'],
        ['a', '4'],
        ['c', '5'],
      ]),
    ).toEqual([
      ['a', '4'],
      ['b', '2'],
      ['c', '5'],
    ]);
    expect(entries).toEqual([
      ['a', '1'],
      ['b', '2'],
    ]);
  });

  test('are KEY=VALUE, of any one line', () => {
    fc.assert(
      fc.property(key, line, (name, value) => {
        expect(parseSetting(`${name}=${value}`)).toEqual([name, value]);
      }),
    );
  });
});

test('a time is written as toISOString writes it', () => {
  const dates = fc.date({ noInvalidDate: true, min: new Date(0), max: new Date('9999-12-31T23:59:59.999Z') });
  fc.assert(
    fc.property(dates, (date) => {
      expect(formatTime(date)).toBe(date.toISOString());
    }),
  );
});
