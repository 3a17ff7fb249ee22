/** The process table of macOS, from captured text: ps and lsof behind one interface; a missing tool means less, and is said. */
import { describe, expect, test, vi } from 'vitest';
import { PsTable, parseLsof, parsePsTable } from '../lib/ps-table.ts';
import { judgeProcesses } from '../lib/reap-rules.ts';
import { ROOT, SELF, TARGET } from './helpers/rows.ts';

const PS = `    1     0 ??           0 Ss   Mon Nov 30 08:00:01 2026     launchd
  501  1000 ttys003    400 S    Mon Nov 30 13:11:00 2026     zsh
  612  1000 ttys003    501 S+   Mon Nov 30 13:12:00 2026     agent
  613  1000 ??         612 S    Mon Nov 30 13:12:01 2026     node
  614  1000 ??           1 Z    Mon Nov 30 13:12:02 2026     (node)
  615     0 ??         612 S    Mon Nov 30 13:12:02 2026     sudo
  700  1000 ??           1 S    Mon Nov 30 13:13:00 2026     Google Chrome H
`;

const LSOF = `p501
fcwd
n/private/tmp/root
ftxt
n/bin/zsh
p613
fcwd
n/
f3
n/private/tmp/root/log
f4
n/private/tmp/rooted/log
p700
f7
n/private/tmp/root2
p701
ftxt
n/private/tmp/root/prog
`;

describe('parsePsTable', () => {
  test('reads every row, whatever is in the name', () => {
    const rows = parsePsTable(PS);
    expect([...rows.keys()]).toEqual([1, 501, 612, 613, 614, 615, 700]);
    expect(rows.get(501)).toMatchObject({ ppid: 400, uid: 1000, tty: 'ttys003', name: 'zsh', dead: false });
    expect(rows.get(613)).toMatchObject({ ppid: 612, tty: '0', start: '1796044321' });
    expect(rows.get(614)?.dead).toBe(true);
    expect(rows.get(700)?.name).toBe('Google Chrome H');
  });

  test('what is no row says nothing', () => {
    for (const text of ['', 'ps: illegal option', '1 2 3', '  501  1000 ttys003    400 S    lun. 30 nov. 2026 zsh']) {
      expect(parsePsTable(text).size).toBe(0);
    }
  });
});

test('parseLsof: who is in the place and how; a name that only begins alike is another', () => {
  expect([...parseLsof(LSOF, '/private/tmp/root')]).toEqual([
    [501, 'cwd'],
    [613, 'file'],
    [701, 'exe'],
  ]);
});

describe('PsTable', () => {
  const ask = (file: string) => (file === '/bin/ps' ? PS : LSOF);

  test('--stop: the descendants of the command, in its terminal or none, and nobody else', () => {
    const table = new PsTable(1000, ask);
    const target = { ...TARGET, root: undefined, tty: '0', living: { pid: 612, start: '1796044320' } };
    const judged = judgeProcesses(table, target, SELF);
    expect(judged.map(({ process: { pid }, verdict }) => [pid, verdict])).toEqual([
      [612, 'end'],
      [613, 'end'],
      [615, 'spare'],
    ]);
  });

  test('visitors are named, and nothing is ended for a token, which cannot be read', () => {
    const table = new PsTable(1000, ask);
    const target = { ...TARGET, root: { ...ROOT, path: '/private/tmp/root' }, visitors: 'name' } as const;
    const judged = judgeProcesses(table, target, { ...SELF, lineage: new Set([90]) });
    expect(judged.map(({ process: { pid }, verdict }) => [pid, verdict])).toEqual([
      [501, 'spare'],
      [613, 'spare'],
    ]);
    expect(table.gaps).toEqual([]);
  });

  test('a tool that is missing or fails: nothing is found, and that is said', () => {
    const missing = vi.fn((): string => {
      throw Object.assign(new Error('spawnSync ENOENT'), { code: 'ENOENT' });
    });
    const table = new PsTable(1000, missing);
    expect([...table.pids(), ...table.visitors('/private/tmp/root')]).toEqual([]);
    expect(table.gaps).toEqual([
      expect.stringMatching(/^\/bin\/ps failed, so less/),
      expect.stringMatching(/^\/usr\/sbin\/lsof failed, so less/),
    ]);
    expect(missing.mock.calls).toHaveLength(2);
  });
});
