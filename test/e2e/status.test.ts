/** task-status: every state, what is flagged, what is listed, and that it changes and waits for nothing. */
import { existsSync } from 'node:fs';
import { mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { test } from '../helpers/sandbox.ts';
import { describeTree, startTask } from '../helpers/tasks.ts';
import { until } from '../helpers/until.ts';

const FOREVER = ['sleep', '1000'];

describe('what it shows', () => {
  test('every state, with its reason and what to do next', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a-running', FOREVER);
    await sandbox.finished('b-detached', 'setsid sleep 1000 >/dev/null 2>&1 &');
    for (const [id, changes] of [
      ['c-held', { state: 'held', pid: '', pid_start: '', tty_nr: '' }],
      ['d-finished', {}],
      ['e-unknown', { pid_ns: '1' }],
      ['f-creating', { state: 'creating' }],
      ['g-removing', { state: 'removing' }],
      ['h-leftover', { state: 'leftover', leftover_reason: 'because of this' }],
      ['i-moved', { home: '/elsewhere' }],
      ['j-unreadable', { schema: '2' }],
    ] as const) {
      await sandbox.finished(id);
      await sandbox.edit(id, changes);
    }
    await writeFile(sandbox.state('k-notes.meta'), 'window=7\n');
    await sandbox.finished('l-renamed');
    await rename(sandbox.state('l-renamed.meta'), sandbox.state('l-renamed.meta.removing'));
    await sandbox.spawn(['--set', 'window=8', 'd-finished']);

    const { tasks } = await sandbox.status();
    const shown = tasks.map(({ id, state, reason, next }) => [id, state, reason, next]);
    expect(shown).toEqual([
      ['a-running', 'running', '', ''],
      ['b-detached', 'detached', expect.stringMatching(/\d+ \(sleep\)/), 'task-teardown b-detached ends them'],
      ['c-held', 'held', '', 'task-teardown c-held'],
      ['d-finished', 'finished', '', 'task-teardown d-finished'],
      [
        'e-unknown',
        'unknown',
        expect.stringContaining('another machine'),
        expect.stringContaining('--forget e-unknown'),
      ],
      ['f-creating', 'creating', expect.stringContaining('killed'), 'task-teardown f-creating'],
      ['g-removing', 'removing', expect.stringContaining('killed'), 'task-teardown g-removing'],
      ['h-leftover', 'leftover', 'because of this', expect.stringContaining('task-teardown h-leftover')],
      ['i-moved', 'moved', expect.stringContaining('another path'), 'task-teardown --forget i-moved'],
      ['j-unreadable', 'unreadable', expect.stringContaining('schema'), 'task-teardown --forget j-unreadable'],
      ['k-notes', 'notes', expect.stringContaining("orchestrator's own"), ''],
      ['l-renamed', 'removing', expect.stringContaining('killed'), 'task-teardown l-renamed'],
    ]);
    expect(tasks[0]).toMatchObject({ pid, command: 'sleep', rootIs: 'own', createdAt: expect.stringMatching(/Z$/) });
    expect(tasks[3]).toMatchObject({ keys: { window: '8' } });
    expect(tasks[10]).toMatchObject({ keys: { window: '7' } });

    const table = await sandbox.run('task-status', []);
    expect(table).toMatchObject({ status: 0, stderr: '' });
    for (const { id, state, reason, next } of tasks as Record<string, string>[]) {
      expect(table.stdout).toMatch(new RegExp(`^${id} +${state} `, 'm'));
      for (const text of [reason, next]) if (text) expect(table.stdout).toContain(text);
    }
    expect(table.stdout).toContain(String(pid));
  });

  test('B21 a live task whose root is missing is flagged', async ({ sandbox }) => {
    const { root } = await startTask(sandbox, 'a', FOREVER);
    await rm(root, { recursive: true });
    expect((await sandbox.status()).tasks).toMatchObject([
      { state: 'running', rootIs: 'absent', reason: 'its directory is missing' },
    ]);
    expect((await sandbox.run('task-status', [])).stdout).toContain('its directory is missing');
  });

  test('an edited record whose command is no text does not end the listing', async ({ sandbox }) => {
    await sandbox.finished('a');
    await sandbox.edit('a', { command: '"a"b"' });
    await sandbox.finished('b');
    expect((await sandbox.status()).tasks).toMatchObject([{ state: 'unreadable' }, { id: 'b', state: 'finished' }]);
  });

  test('only the ids asked for, once each; one without a record is said', async ({ sandbox }) => {
    for (const id of ['a', 'b']) await sandbox.finished(id);
    const { status, stdout, stderr } = await sandbox.run('task-status', ['--json', 'b', 'none', 'b']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ version: 1, home: sandbox.home, tasks: [{ id: 'b' }], unrecorded: [] });
    expect(stderr).toBe('task-status: none: no record');
  });
});

describe('directories without a record', () => {
  test("this home's are listed with the command that removes them; no other home's, no other name", async ({
    sandbox,
  }) => {
    const root = await sandbox.finished('a');
    const prefix = root.slice(0, -1);
    const other = { env: { FM_HOME: join(sandbox.path, 'other') } };
    await sandbox.spawn(['x', '--', 'true'], other);
    await sandbox.spawn(['y', '--', 'true'], other);
    await sandbox.teardown(['--forget', 'y'], other);
    for (const stray of [`${prefix}stray`, `${prefix}-bad`, `${sandbox.base}/fm-stray`, `${prefix}covered`])
      await mkdir(stray);
    await writeFile(sandbox.state('covered.meta'), 'schema=1\n');
    const { unrecorded } = await sandbox.status();
    expect(unrecorded).toEqual([`${prefix}stray`]);
    const { stdout } = await sandbox.run('task-status', []);
    const command = /^ {4}(rm -rf -- .*)$/m.exec(stdout)?.[1] as string;
    await sandbox.run('sh', ['-c', command]);
    expect(existsSync(`${prefix}stray`)).toBe(false);
    expect((await sandbox.status()).unrecorded).toEqual([]);
  });

  test('also in the bases of records, and in a base whose name needs quoting', async ({ sandbox }) => {
    const base = join(sandbox.path, "it's a base");
    await mkdir(base);
    await sandbox.spawn(['--base', base, 'a', '--', 'true']);
    const root = (await sandbox.record('a'))?.tasktmp as string;
    await mkdir(`${root}2`);
    expect((await sandbox.status()).unrecorded).toEqual([`${root}2`]);
    const { stdout } = await sandbox.run('task-status', []);
    await sandbox.run('sh', ['-c', /^ {4}(rm -rf -- .*)$/m.exec(stdout)?.[1] as string]);
    expect(existsSync(`${root}2`)).toBe(false);
    expect(existsSync(root)).toBe(true);
  });
});

describe('it reads and nothing else', () => {
  test('A24 no lock is taken, nothing is changed, not even a mode or a time', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a', FOREVER);
    await sandbox.finished('b');
    // A lock that cannot be opened: whoever wants it, fails.
    await rm(sandbox.state('a.lock'));
    await mkdir(sandbox.state('a.lock'));
    expect((await sandbox.teardown(['a'])).status).toBe(74);
    const before = [describeTree(sandbox.home), describeTree(sandbox.base)];
    const { status, stdout } = await sandbox.run('task-status', ['--json']);
    expect(status).toBe(0);
    expect(JSON.parse(stdout).tasks).toMatchObject([{ id: 'a', state: 'running', pid }, { id: 'b' }]);
    expect([describeTree(sandbox.home), describeTree(sandbox.base)]).toEqual(before);
  });

  test('records that come and go while it reads do no harm', async ({ sandbox }) => {
    await sandbox.finished('a');
    const record = await readFile(sandbox.state('a.meta'), 'utf8');
    const state = sandbox.state('');
    // As spawn and teardown would, with the record renamed into place and unlinked.
    const churn = `cd "${state}"; while :; do for i in 1 2 3 4 5 6 7 8; do
      printf '%s\\n' "$TEXT" | sed "s/^id=a$/id=c$i/" >c$i.meta.new; mv c$i.meta.new c$i.meta; done; rm -f c?.meta; done`;
    const churning = sandbox.start('sh', ['-c', churn], { env: { TEXT: record.trimEnd() } });
    await until('records come', () => existsSync(sandbox.state('c1.meta')));
    for (let round = 0; round < 10; round++) {
      const { status, stderr, stdout } = await sandbox.run('task-status', ['--json']);
      expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
      const ids = JSON.parse(stdout).tasks.map(({ id }: { id: string }) => id);
      expect(ids[0]).toBe('a');
    }
    churning.kill('SIGKILL');
    await churning;
  });

  test('a home that does not exist is no error, and is not made; one that was asked for is 78', async ({ sandbox }) => {
    const none = join(sandbox.path, 'none');
    const env = { FM_HOME: none };
    expect(await sandbox.run('task-status', [], { env })).toMatchObject({
      status: 0,
      stdout: '',
      stderr: expect.stringContaining('nothing to show'),
    });
    const { stdout } = await sandbox.run('task-status', ['--json'], { env });
    expect(JSON.parse(stdout)).toEqual({ version: 1, home: null, tasks: [], unrecorded: [], unreadable: 0 });
    expect((await sandbox.run('task-status', ['--home', none])).status).toBe(78);
    expect((await sandbox.run('task-status', ['--bad'])).status).toBe(64);
    expect(existsSync(none)).toBe(false);
  });

  test('an empty home, and one behind a link', async ({ sandbox }) => {
    await sandbox.finished('a');
    const link = join(sandbox.path, 'link');
    await symlink(sandbox.home, link);
    const { stdout } = await sandbox.run('task-status', ['--json', '--home', link]);
    expect(JSON.parse(stdout)).toMatchObject({ home: sandbox.home, tasks: [{ id: 'a' }] });
    await sandbox.teardown(['a']);
    expect((await sandbox.run('task-status', [])).stdout).toBe('no tasks');
  });

  test('a reader that goes away, and a full disk', async ({ sandbox }) => {
    await sandbox.finished('a');
    const { stdout } = await sandbox.run('sh', ['-c', '{ task-status; echo $? >&2; } 2>status | true; cat status']);
    await until('it ended', async () => (await readFile(join(sandbox.path, 'status'), 'utf8')) === '0\n');
    expect(stdout.length).toBeLessThan(3);
    expect((await sandbox.run('sh', ['-c', 'task-status >/dev/full'])).status).toBe(74);
  });
});
