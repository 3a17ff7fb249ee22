/** Records that others wrote, moved, or damaged: acceptance A17, A21 to A23. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { parseRecord } from '../../lib/record.ts';
import { test } from '../helpers/fast.ts';
import type { Sandbox } from '../helpers/sandbox.ts';
import { snapshot } from '../helpers/tree.ts';

/** Spawn 125, teardown 65, status shows it, and nothing at all is changed. */
async function expectDistrust(sandbox: Sandbox, text: string, what = text): Promise<void> {
  const before = snapshot(sandbox.path);
  const [spawned, torn, status] = await Promise.all([
    sandbox.spawn(['x', '--', 'echo', 'ran']),
    sandbox.teardown(['x']),
    sandbox.status(),
  ]);
  expect(spawned, what).toMatchObject({ status: 125, stdout: '', stderr: expect.stringContaining(text) });
  expect(spawned.stderr.split('\n'), what).toHaveLength(1);
  expect(torn, what).toMatchObject({ status: 65, stderr: expect.stringContaining(text) });
  expect(torn.stderr.split('\n'), what).toHaveLength(1);
  expect(status.tasks, what).toMatchObject([{ id: 'x', reason: expect.stringContaining(text) }]);
  expect(status.tasks[0]?.state, what).toMatch(/^(unreadable|moved)$/);
  expect(snapshot(sandbox.path), what).toEqual(before);
}

const REQUIRED = [
  'schema',
  'id',
  'token',
  'spawn_gen',
  'state',
  'created_at',
  'home',
  'base',
  'base_dev',
  'base_ino',
  'tasktmp',
  'tmp_dev',
  'tmp_ino',
  'tmp_btime',
  'tmpdir_pin',
  'host',
  'boot_id',
  'pid_ns',
  'pid',
  'pid_start',
  'tty_nr',
  'command',
];

describe('A23 a record with a schema', () => {
  // Each of these is a change of one line: what is tried on the commands is a part, what the parser says is all.
  const changes: Record<string, (line: string, key: string) => string> = {
    missing: () => '',
    empty: (_, key) => `${key}=\n`,
    malformed: (_, key) => `${key}=\x01 ? ?\n`,
    duplicated: (line) => line + line,
    'indented by a blank': (line) => ` ${line}`,
  };

  test.for(Object.keys(changes))('whose keys are, one at a time, %s is refused', async (how, { sandbox }) => {
    await sandbox.finished('x', ': > "$FM_TASK_TMP/kept"');
    const file = sandbox.state('x.meta');
    const text = readFileSync(file, 'utf8');
    const damaged = REQUIRED.map((key) => {
      const line = new RegExp(`^${key}=.*\n`, 'm').exec(text)?.[0] as string;
      return [key, text.replace(line, () => changes[how]?.(line, key) as string)] as const;
    });
    for (const [key, bad] of damaged) expect(() => parseRecord(Buffer.from(bad), 'x'), key).toThrow();
    for (const [key, bad] of damaged.filter((_, index) => index % 9 === 0)) {
      writeFileSync(file, bad);
      await expectDistrust(sandbox, 'kept as it is', `${key} ${how}`);
    }
    writeFileSync(file, text);
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
  });

  test('cut off at any byte is refused', async ({ sandbox }) => {
    await sandbox.finished('x');
    const bytes = readFileSync(sandbox.state('x.meta'));
    for (let length = 0; length < bytes.length; length++)
      expect(() => parseRecord(bytes.subarray(0, length), 'x'), String(length)).toThrow();
    for (const length of [1, 9, 200, bytes.length - 1]) {
      writeFileSync(sandbox.state('x.meta'), bytes.subarray(0, length));
      await expectDistrust(sandbox, 'kept as it is', String(length));
    }
  });

  const whole: Record<string, { text: string; damage: (file: string, bytes: Buffer) => unknown }> = {
    'of another task': {
      text: 'it is the record of "y"',
      damage: (file, bytes) => writeFileSync(file, String(bytes).replace('\nid=x\n', '\nid=y\n')),
    },
    'with CR LF': {
      text: 'a carriage return',
      damage: (file, bytes) => writeFileSync(file, String(bytes).replaceAll('\n', '\r\n')),
    },
    'of an unknown schema': {
      text: 'its schema "2" is not known',
      damage: (file, bytes) => writeFileSync(file, String(bytes).replace('schema=1', 'schema=2')),
    },
    'with the schema at another place': {
      text: 'schema is not its first line',
      damage: (file, bytes) => writeFileSync(file, `window=1\n${bytes}`),
    },
    'with a key of a later version': {
      text: 'the key worktree',
      damage: (file, bytes) => writeFileSync(file, `${bytes}worktree=/w\n`),
    },
    'with text after it that is no record': {
      text: 'not key=value',
      damage: (file, bytes) => writeFileSync(file, `${bytes}done\n`),
    },
    empty: { text: 'it is empty', damage: (file) => writeFileSync(file, '') },
    'of 10 MB': {
      text: 'it is larger than 64 KiB',
      damage: (file, bytes) => writeFileSync(file, `${bytes}${'a=b\n'.repeat(2_500_000)}`),
    },
    'that is not UTF-8': {
      text: 'not valid UTF-8',
      damage: (file, bytes) => writeFileSync(file, Buffer.concat([bytes, Buffer.from('a=\xff\n', 'latin1')])),
    },
    'with a zero byte': { text: 'a zero byte', damage: (file, bytes) => writeFileSync(file, `${bytes}a=\0\n`) },
    'A22 that is a link to a good one': {
      text: 'it is a symbolic link',
      damage: (file) => {
        renameSync(file, `${file}-good`);
        symlinkSync(`${file}-good`, file);
      },
    },
    'A22 that is a dangling link': {
      text: 'it is a symbolic link',
      damage: (file) => {
        rmSync(file);
        symlinkSync(`${file}-gone`, file);
      },
    },
    'A22 that is a directory': {
      text: 'it is not a regular file',
      damage: (file) => {
        rmSync(file);
        mkdirSync(file);
      },
    },
    'A22 that is a fifo': {
      text: 'it is not a regular file',
      damage: (file) => {
        rmSync(file);
        execFileSync('mkfifo', [file]);
      },
    },
  };
  for (const [title, { text, damage }] of Object.entries(whole)) {
    test(`${title} is refused`, async ({ sandbox }) => {
      await sandbox.finished('x', ': > "$FM_TASK_TMP/kept"');
      const file = sandbox.state('x.meta');
      damage(file, readFileSync(file));
      await expectDistrust(sandbox, text);
    });
  }

  test('and damage of one never hides the others', async ({ sandbox }) => {
    await sandbox.finished('x');
    const root = await sandbox.finished('y');
    writeFileSync(sandbox.state('x.meta'), 'schema=1\n');
    expect((await sandbox.status()).tasks.map(({ id, state }) => [id, state])).toEqual([
      ['x', 'unreadable'],
      ['y', 'finished'],
    ]);
    expect(await sandbox.teardown(['x', 'y'])).toMatchObject({ status: 65 });
    expect(existsSync(root)).toBe(false);
  });
});

test('A23 a home that was moved or copied: its records are never acted on', async ({ sandbox }) => {
  const root = await sandbox.finished('x', ': > "$FM_TASK_TMP/kept"');
  const before = snapshot(root);
  execFileSync('cp', ['-a', sandbox.home, `${sandbox.home}-copy`]);
  const copy = { env: { FM_HOME: `${sandbox.home}-copy` } };
  expect(await sandbox.spawn(['x', '--', 'true'], copy)).toMatchObject({
    status: 125,
    stderr: expect.stringContaining('a home at another path'),
  });
  expect(await sandbox.teardown(['x'], copy)).toMatchObject({ status: 65 });
  expect(snapshot(root)).toEqual(before);
  renameSync(sandbox.home, `${sandbox.home}-moved`);
  symlinkSync(`${sandbox.home}-moved`, sandbox.home);
  await expectDistrust(sandbox, 'a home at another path');
});

describe("an orchestrator's own record", () => {
  const notes = 'window=3\nnote=a=b\n';

  async function withNotes(sandbox: Sandbox, text: string): Promise<void> {
    await sandbox.finished('probe');
    await sandbox.teardown(['probe']);
    writeFileSync(sandbox.state('x.meta'), text);
  }

  test('A02 is left by teardown, shown by status, and taken up by spawn', async ({ sandbox }) => {
    await withNotes(sandbox, notes);
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
    expect(readFileSync(sandbox.state('x.meta'), 'utf8')).toBe(notes);
    expect((await sandbox.status()).tasks).toMatchObject([
      { id: 'x', state: 'notes', keys: { window: '3', note: 'a=b' } },
    ]);
    await sandbox.finished('x');
    expect(await sandbox.record('x')).toMatchObject({ schema: '1', window: '3', note: 'a=b' });
  });

  test.for(['tasktmp=/', 'state=active', 'branch=b', 'leftover_reason='])(
    'with the key of %s: spawn names it and changes nothing',
    async (line, { sandbox }) => {
      await withNotes(sandbox, `${notes}${line}\n`);
      const before = snapshot(sandbox.path);
      const key = line.split('=')[0];
      expect(await sandbox.spawn(['x', '--', 'true'])).toMatchObject({
        status: 125,
        stderr: expect.stringContaining(`the key ${key}`),
      });
      expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
      expect(snapshot(sandbox.path)).toEqual(before);
    },
  );

  test('--set changes it too', async ({ sandbox }) => {
    await withNotes(sandbox, notes);
    expect(await sandbox.spawn(['--set', 'window=4', '--set', 'more=', 'x'])).toMatchObject({
      status: 0,
      stdout: '',
      stderr: '',
    });
    expect(readFileSync(sandbox.state('x.meta'), 'utf8')).toBe('window=4\nnote=a=b\nmore=\n');
  });
});

describe('--set', () => {
  test('with a command, and later without one while the task runs', async ({ sandbox }) => {
    const script = 'task-spawn --set b=2 --set a=3 "$FM_TASK_ID" && grep -x "[ab]=." "$FM_HOME/state/x.meta"';
    const set = ['--set', 'a=1', '--set', 'q= "$x" \\', 'x'];
    expect(await sandbox.spawn([...set, '--', 'sh', '-c', script])).toMatchObject({ status: 0, stdout: 'a=3\nb=2' });
    expect(await sandbox.record('x')).toMatchObject({ a: '3', b: '2', q: ' "$x" \\', state: 'active' });
    expect(await sandbox.spawn(['--set', 'a=4', 'x', '--', 'true'])).toMatchObject({ status: 0 });
    expect(await sandbox.record('x')).toMatchObject({ a: '4', b: '2' });
  });

  test.for([
    ['token=0', 'belongs to task-spawn'],
    ['worktree=/', 'belongs to task-spawn'],
    ['leftover_reason=', 'belongs to task-spawn'],
    ['Window=1', 'is not KEY=VALUE'],
    ['9=1', 'is not KEY=VALUE'],
    ['=1', 'is not KEY=VALUE'],
    ['window', 'is not KEY=VALUE'],
    ['a=b\nschema=1', 'one line'],
    ['a=b\r', 'one line'],
  ] as const)('%j is refused, with and without a command', async ([setting, text], { sandbox }) => {
    await sandbox.finished('x');
    const before = snapshot(sandbox.path);
    for (const rest of [['x'], ['x', '--', 'true'], ['new', '--', 'true']])
      expect(await sandbox.spawn(['--set', setting, ...rest])).toMatchObject({
        status: 125,
        stderr: expect.stringContaining(text),
      });
    expect(snapshot(sandbox.path)).toEqual(before);
  });

  test('of a task without a record, of a damaged one, and of too much: refused', async ({ sandbox }) => {
    expect(await sandbox.spawn(['--set', 'a=1', 'x'])).toMatchObject({
      status: 125,
      stderr: expect.stringContaining('no record'),
    });
    expect(existsSync(sandbox.home)).toBe(false);
    await sandbox.finished('x');
    expect(await sandbox.spawn(['--set', 'a=1', 'y'])).toMatchObject({
      status: 125,
      stderr: expect.stringContaining('no record'),
    });
    expect(existsSync(sandbox.state('y.lock'))).toBe(false);
    const before = snapshot(sandbox.path);
    expect(await sandbox.spawn(['--set', `a=${'b'.repeat(65_500)}`, 'x'])).toMatchObject({
      status: 125,
      stderr: expect.stringContaining('32 KiB'),
    });
    expect(snapshot(sandbox.path)).toEqual(before);
    writeFileSync(sandbox.state('x.meta'), 'schema=1\n');
    expect(await sandbox.spawn(['--set', 'a=1', 'x'])).toMatchObject({
      status: 125,
      stderr: expect.stringContaining('not trusted'),
    });
  });
});

test('arguments never reach the record: they carry secrets', async ({ sandbox }) => {
  expect(await sandbox.spawn(['x', '--', 'echo', 'secret'])).toMatchObject({ status: 0 });
  expect(readFileSync(join(sandbox.home, 'state/x.meta'), 'utf8')).not.toContain('secret');
  expect((await sandbox.record('x'))?.command).toBe('"echo"');
});

describe('keys of others', () => {
  test('are refused before they leave no room for ours, so that a teardown can always be written down', async ({
    sandbox,
  }) => {
    const root = await sandbox.finished('a');
    const before = await sandbox.record('a');
    const refused = await sandbox.spawn(['--set', `k=${'x'.repeat(40_000)}`, 'a']);
    expect([refused.status, refused.stderr]).toEqual([125, expect.stringContaining('set less')]);
    expect(await sandbox.record('a')).toEqual(before);
    expect((await sandbox.spawn(['--set', `k=${'x'.repeat(32_000)}`, 'a'])).status).toBe(0);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    expect(existsSync(root)).toBe(false);
  });
});
