import { chmodSync, lstatSync, mkdirSync, rmdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { makeFolder, tightenFolder } from '../lib/folder.ts';
import type { Home } from '../lib/home.ts';
import type { Machine } from '../lib/machine.ts';
import type { TaskRecord } from '../lib/record.ts';
import { inspectRoot } from '../lib/root.ts';
import { MountSpace } from './helpers/mounts.ts';
import { isRoot, type Sandbox, test } from './helpers/sandbox.ts';

const uid = process.geteuid?.() ?? 0;
const here: Machine = { host: `${'a'.repeat(32)} node`, boot_id: 'boot', pid_ns: '4026531836' };
const later: Machine = { ...here, boot_id: 'next' };
const longAgo = { dev: 0n, btime: 0n };

/** A root, and the record that names it. */
function makeRoot(sandbox: Sandbox): { home: Home; record: TaskRecord; undo: (() => unknown)[] } {
  const home: Home = { path: sandbox.home, config: '', state: '', uid, tag: '01234567' };
  const base = statSync(sandbox.base, { bigint: true });
  const tasktmp = join(sandbox.base, 'fm-01234567-x');
  const undo: (() => unknown)[] = [];
  const identity = makeFolder(tasktmp, uid, (step) => undo.push(step));
  const record = {
    id: 'x',
    tasktmp,
    base: sandbox.base,
    base_dev: String(base.dev),
    base_ino: String(base.ino),
    ...identity,
    ...here,
  };
  return { home, record: record as TaskRecord, undo };
}

describe('making a folder', () => {
  test('arms what takes it back, with what came into it', async ({ sandbox }) => {
    const { record, undo } = makeRoot(sandbox);
    writeFileSync(join(record.tasktmp, 'f'), '');
    for (const step of undo) await step();
    expect(() => lstatSync(record.tasktmp)).toThrow('ENOENT');
    for (const step of undo) await step();
  });

  test('but never another folder of its name', async ({ sandbox }) => {
    const { record, undo } = makeRoot(sandbox);
    rmdirSync(record.tasktmp);
    mkdirSync(record.tasktmp);
    await expect(async () => undo[0]?.()).rejects.toThrow('no longer the directory that was made');
    expect(lstatSync(record.tasktmp).isDirectory()).toBe(true);
  });

  test('tightens any mode, and gives the one it had', ({ sandbox }) => {
    for (const mode of [0, 0o300, 0o777, 0o1777, 0o2755]) {
      chmodSync(sandbox.base, mode);
      expect(tightenFolder(sandbox.base)).toBe(mode);
      expect(lstatSync(sandbox.base).mode & 0o7777).toBe(0o700);
    }
  });
});

describe('a root is its own by', () => {
  test('device, inode and birth time in the boot of the record; the device may change with another', ({ sandbox }) => {
    const { home, record } = makeRoot(sandbox);
    const look = (changes: Partial<TaskRecord>, now = here) =>
      inspectRoot(home, { ...record, ...changes }, longAgo, now).is;
    expect(look({})).toBe('own');
    expect(look({}, later)).toBe('own');
    expect(look({ tmp_dev: '1' })).toBe('foreign');
    expect(look({ tmp_dev: '1' }, later)).toBe('own');
    for (const now of [here, later]) {
      expect(look({ tmp_btime: String(BigInt(record.tmp_btime) + 1n) }, now)).toBe('foreign');
      expect(look({ tmp_ino: '1' }, now)).toBe('foreign');
      expect(look({ base_ino: '1' }, now)).toBe('elsewhere');
    }
    expect(look({ base_dev: '1' })).toBe('elsewhere');
    expect(look({ base_dev: '1' }, later)).toBe('own');
  });

  test('its very path, byte for byte', ({ sandbox }) => {
    const { home, record } = makeRoot(sandbox);
    for (const tasktmp of [
      `${record.tasktmp}/`,
      record.tasktmp.replace('/fm-', '//fm-'),
      `${sandbox.base}/fm-x`,
      '/',
      sandbox.base,
    ])
      expect(inspectRoot(home, { ...record, tasktmp }, longAgo, here).is).toBe('foreign');
    expect(inspectRoot({ ...home, uid: uid + 1 }, record, longAgo, here)).toMatchObject({
      is: 'foreign',
      reason: expect.stringContaining(`belongs to uid ${uid}`),
    });
    rmSync(record.tasktmp, { recursive: true });
    expect(inspectRoot(home, record, longAgo, here).is).toBe('absent');
    writeFileSync(record.tasktmp, '');
    expect(inspectRoot(home, record, longAgo, here)).toMatchObject({
      is: 'foreign',
      reason: expect.stringContaining('a file'),
    });
  });

  test.for(['', '0'])(
    'without an identity (inode %j): a birth not before the announcement, on its file system',
    (tmp_ino, { sandbox }) => {
      const { home, record } = makeRoot(sandbox);
      const stat = lstatSync(record.tasktmp, { bigint: true });
      const look = (dev: bigint, btime: bigint) => inspectRoot(home, { ...record, tmp_ino }, { dev, btime }, here).is;
      expect(look(stat.dev, stat.birthtimeNs)).toBe('unborn');
      expect(look(stat.dev, stat.birthtimeNs - 1n)).toBe('unborn');
      expect(look(stat.dev, stat.birthtimeNs + 1n)).toBe('foreign');
      expect(look(stat.dev + 1n, stat.birthtimeNs)).toBe('foreign');
      expect(look(stat.dev, 0n)).toBe('foreign');
    },
  );
});

describe.skipIf(!isRoot)('where the file system keeps no birth time', () => {
  test('device and inode within one boot are proof; after another boot it is kept', async ({ sandbox }) => {
    const space = await MountSpace.open(sandbox, 'mount -t ramfs -o mode=755 ramfs base');
    try {
      expect(await space.run('task-spawn', ['x', '--', 'sh', '-c', ': > "$FM_TASK_TMP/f"'])).toMatchObject({
        status: 0,
      });
      const record = (await sandbox.record('x')) as unknown as TaskRecord;
      expect(record.tmp_btime).toBe('0');
      expect(await space.run('task-spawn', ['x', '--', 'sh', '-c', 'ls "$FM_TASK_TMP"'])).toMatchObject({
        status: 0,
        stdout: 'f\ngotmp',
      });
      const home: Home = { path: sandbox.home, config: '', state: '', uid, tag: record.tasktmp.slice(-10, -2) };
      // Seen through the namespace's own root: only the prefix of the paths differs.
      const base = space.at(sandbox.base);
      const seen = { ...record, base, tasktmp: join(base, `fm-${home.tag}-x`), ...here };
      expect(inspectRoot(home, seen, longAgo, here).is).toBe('own');
      expect(inspectRoot(home, seen, longAgo, later)).toMatchObject({
        is: 'foreign',
        reason: expect.stringContaining('keeps no birth time'),
      });
      expect(
        inspectRoot(
          home,
          { ...seen, tmp_ino: '' },
          { dev: lstatSync(seen.tasktmp, { bigint: true }).dev, btime: 1n },
          here,
        ).is,
      ).toBe('foreign');
      expect(await space.run('task-teardown', ['x'])).toMatchObject({ status: 0 });
      expect(await sandbox.record('x')).toBeUndefined();
    } finally {
      await space.close();
    }
  });
});
