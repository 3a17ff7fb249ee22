/** What a process is: cases B88, B89. */
import { execa } from 'execa';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { lineage, parsePs, parseStat, probeProcess, readProcess } from '../lib/processes.ts';

/** /proc/PID/stat with a name, a state, a number of threads. */
const stat = (name: string, state = 'S', threads = 1) =>
  `4242 (${name}) ${state} 17 4242 4242 34816 4300 4194304 100 0 0 0 1 2 0 0 20 0 ${threads} 0 987654 1000 20 184 1\n`;

describe('parseStat', () => {
  test('B89 the name may hold anything: fields count from the last ")"', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 15 }), (bytes) => {
        const name = Buffer.from(bytes);
        expect(parseStat(4242, stat(name.toString('latin1')))).toEqual({
          pid: 4242,
          ppid: 17,
          start: '987654',
          tty: '34816',
          session: 4242,
          name: name.toString(),
          kernel: false,
          dead: false,
        });
      }),
    );
    for (const name of [') S 1 (', 'a) b', '((', '', ' ', ')', '1 2 3 4) Z 1 1 1 1']) {
      expect(parseStat(4242, stat(name))).toMatchObject({ ppid: 17, start: '987654', dead: false });
    }
  });

  test.each([
    ['R', 1, false],
    ['S', 1, false],
    ['D', 1, false],
    ['T', 1, false],
    ['t', 1, false],
    ['I', 1, false],
    ['Z', 1, true],
    ['Z', 0, true],
    // The first thread ended, others run on.
    ['Z', 2, false],
    ['X', 1, true],
    ['x', 1, true],
  ])('state %s with %i threads: dead is %s', (state, threads, dead) => {
    expect(parseStat(4242, stat('sh', state, threads))?.dead).toBe(dead);
  });

  test('anything else is unreadable, never dead', () => {
    for (const text of [
      '',
      '4242',
      '4242 (sh)',
      '4242 (sh) S 1 2',
      'x'.repeat(300),
      stat('sh').replace('987654', '-'),
    ]) {
      expect(parseStat(4242, text)).toBeUndefined();
    }
  });
});

describe('parsePs', () => {
  test('reads what ps prints on macOS', () => {
    const expected = {
      pid: 5,
      ppid: 1,
      start: '1796044260',
      tty: '0',
      session: 0,
      name: '?',
      kernel: false,
      dead: false,
    };
    expect(parsePs(5, '    1 S    Mon Nov 30 13:11:00 2026    \n')).toEqual(expected);
    expect(parsePs(5, '    1 Ss+  Mon Nov 30 13:11:00 2026\n')).toEqual(expected);
    expect(parsePs(5, '  812 Z    Tue Dec  1 03:01:09 2026\n')).toMatchObject({ ppid: 812, dead: true });
    expect(parsePs(5, '    1 S    Mon Nov 30 13:11:00 2026     Google Chrome H\n')?.name).toBe('Google Chrome H');
  });

  test('two starts a second apart differ, and the same start is the same', () => {
    const at = (time: string) => parsePs(5, `1 S Mon Nov 30 ${time} 2026`)?.start;
    expect(at('13:11:00')).toBe(at('13:11:00'));
    expect(at('13:11:00')).not.toBe(at('13:11:01'));
  });

  test('anything else is unreadable', () => {
    for (const text of ['', '\n', '1 S', '1 S Mon Nov 30', 'ps: bad option', '1 S lun. 30 nov. 13:11:00 2026']) {
      expect(parsePs(5, text)).toBeUndefined();
    }
  });
});

describe('living processes', () => {
  test('we live with our start time, and are dead with another (B02)', () => {
    const own = readProcess(process.pid);
    if (typeof own === 'string') throw new Error(own);
    expect(own).toMatchObject({ pid: process.pid, ppid: process.ppid, dead: false });
    expect(probeProcess(process.pid, own.start)).toBe('alive');
    expect(probeProcess(process.pid, `${Number(own.start) + 1}`)).toBe('dead');
  });

  test('a process that ended and was reaped is gone', async () => {
    const child = execa('true');
    const pid = child.pid as number;
    await child;
    expect(readProcess(pid)).toBe('gone');
    expect(probeProcess(pid, '1')).toBe('dead');
  });

  test('lineage: ourselves and everything above, and nobody else', async () => {
    const found = lineage(process.pid);
    expect(found.has(process.pid)).toBe(true);
    expect(found.has(process.ppid)).toBe(true);
    const child = execa('sleep', ['1000'], { reject: false });
    expect(lineage(process.pid).has(child.pid as number)).toBe(false);
    expect(lineage(child.pid as number).has(process.pid)).toBe(true);
    child.kill('SIGKILL');
    await child;
  });
});
