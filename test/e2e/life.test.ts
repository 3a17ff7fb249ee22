/** The end of one temp root, end to end: acceptance A01 to A08, A24, A25, A28, A29, B08, B09. */
import { existsSync, lstatSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { test as withMemory } from '../helpers/memory.ts';
import { isRoot, NOBODY, type Sandbox, test } from '../helpers/sandbox.ts';
import { describeTree, holdLock, startTask } from '../helpers/tasks.ts';
import { until } from '../helpers/until.ts';

/** Kept, told, status 0; the record stays as leftover with the reason; --strict makes a status of it. */
async function expectLeftover(sandbox: Sandbox, id: string, reason: RegExp, strict: 69 | 77): Promise<void> {
  const plain = await sandbox.teardown([id]);
  expect(plain.stderr).toMatch(reason);
  expect(plain.stderr.split('\n').length).toBe(1);
  expect(plain.status).toBe(0);
  const record = await sandbox.record(id);
  expect(record?.state).toBe('leftover');
  expect(record?.leftover_reason).toMatch(reason);
  expect((await sandbox.teardown(['--strict', id])).status).toBe(strict);
  expect((await sandbox.status()).tasks).toMatchObject([{ id, state: 'leftover' }]);
}

async function expectGone(sandbox: Sandbox, id: string, root: string): Promise<void> {
  const { status, stderr } = await sandbox.teardown([id]);
  expect(stderr).toMatch(/: (removed|\/\S+ was gone already)/);
  expect(status).toBe(0);
  expect(lstatSync(root, { throwIfNoEntry: false })).toBeUndefined();
  expect(await sandbox.record(id)).toBeUndefined();
  expect(await readdir(sandbox.state(''))).not.toContain(`${id}.lock`);
}

describe('teardown of an ended task', () => {
  test('A01 removes the recorded root with gotmp and content', async ({ sandbox }) => {
    const root = await sandbox.finished('a', 'mkdir -p "$GOTMPDIR/b/c" && echo x > "$FM_TASK_TMP/file"');
    expect((await readdir(root)).sort()).toEqual(['file', 'gotmp']);
    const { status, stderr } = await sandbox.teardown(['a']);
    expect(status).toBe(0);
    expect(stderr).toContain(`removed ${root} (5 entries`);
    expect(existsSync(root)).toBe(false);
    expect(await sandbox.record('a')).toBeUndefined();
    expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
  });

  test('A01 twice is fine', async ({ sandbox }) => {
    await sandbox.finished('a');
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    const again = await sandbox.teardown(['a']);
    expect(again.status).toBe(0);
    expect(again.stderr).toBe('task-teardown: a: no record: nothing to do');
    expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
  });

  test("A02 leaves an orchestrator's own record and everything it may mean", async ({ sandbox }) => {
    await sandbox.finished('other');
    await writeFile(sandbox.state('a.meta'), `window=3\ntasktmp=${sandbox.base}\n`);
    const before = describeTree(sandbox.state('a.meta'));
    const { status, stderr } = await sandbox.teardown(['a']);
    expect(status).toBe(0);
    expect(stderr).toContain("orchestrator's own");
    expect(describeTree(sandbox.state('a.meta'))).toEqual(before);
    expect(await readdir(sandbox.base)).toHaveLength(1);
  });

  test('A03 a root that is gone already: 0, nothing is made', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    await rm(root, { recursive: true });
    await expectGone(sandbox, 'a', root);
    expect(await readdir(sandbox.base)).toEqual([]);
  });

  test('A04 B09 a live sibling whose id goes on where ours ends survives, with the same tree inside', async ({
    sandbox,
  }) => {
    const slot = 'mkdir -p "$FM_TASK_TMP/slot-1/a" && echo x > "$FM_TASK_TMP/slot-1/a/file"';
    const sibling = await startTask(sandbox, 'a2', ['sleep', '1000']);
    await mkdir(join(sibling.root, 'slot-1', 'a'), { recursive: true });
    await writeFile(join(sibling.root, 'slot-1', 'a', 'file'), 'x');
    const before = describeTree(sibling.root);
    await expectGone(sandbox, 'a', await sandbox.finished('a', slot));
    expect(describeTree(sibling.root)).toEqual(before);
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a2', state: 'running' }]);
  });

  test('A25 the same id of another home with the same base is left', async ({ sandbox }) => {
    const env = { FM_HOME: join(sandbox.path, 'home2') };
    const root = await sandbox.finished('a');
    await sandbox.spawn(['a', '--', 'true'], { env });
    const [other] = (await readdir(sandbox.base)).filter((name) => !root.endsWith(name)) as [string];
    const before = describeTree(join(sandbox.base, other));
    await expectGone(sandbox, 'a', root);
    expect(describeTree(join(sandbox.base, other))).toEqual(before);
    expect((await sandbox.teardown(['a'], { env })).status).toBe(0);
    expect(await readdir(sandbox.base)).toEqual([]);
  });
});

describe('a root that is not proven own is kept, told, and everything else goes on', () => {
  test('A05 a foreign recorded path', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const foreign = join(sandbox.path, 'precious');
    await mkdir(join(foreign, 'work'), { recursive: true });
    for (const tasktmp of [foreign, `${root}/`, `${root}/../${root.split('/').pop()}`, `${root}2`, sandbox.path]) {
      await sandbox.edit('a', { tasktmp, state: 'active', leftover_reason: undefined });
      const before = describeTree(foreign);
      await expectLeftover(sandbox, 'a', /not this task's own/, 77);
      expect(describeTree(foreign)).toEqual(before);
      expect(await readdir(root)).toEqual(['gotmp']);
    }
    await sandbox.edit('a', { tasktmp: root });
    await expectGone(sandbox, 'a', root);
  });

  test('A06 the older shape <base>/fm-<id>', async ({ sandbox }) => {
    await sandbox.finished('a');
    const older = join(sandbox.base, 'fm-a');
    await mkdir(join(older, 'gotmp'), { recursive: true, mode: 0o700 });
    const { ino, dev, birthtimeNs } = lstatSync(older, { bigint: true });
    await sandbox.edit('a', { tasktmp: older, tmp_ino: `${ino}`, tmp_dev: `${dev}`, tmp_btime: `${birthtimeNs}` });
    await expectLeftover(sandbox, 'a', /not this task's own/, 77);
    expect(await readdir(older)).toEqual(['gotmp']);
  });

  test("A07 a symbolic link at the root's name", async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const target = join(sandbox.path, 'target');
    await rename(root, target);
    for (const link of [target, join(target, 'gotmp'), 'dangling']) {
      await symlink(link, root);
      const before = describeTree(target);
      await expectLeftover(sandbox, 'a', /symbolic link/, 77);
      expect(describeTree(target)).toEqual(before);
      expect(lstatSync(root).isSymbolicLink()).toBe(true);
      await rm(root);
    }
    await rename(target, root);
    await expectGone(sandbox, 'a', root);
  });

  test("A28 the root's inode in the hands of another directory of ours", async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    await rename(root, `${root}.old`);
    await mkdir(join(root, 'work'), { recursive: true, mode: 0o700 });
    await sandbox.edit('a', { tmp_ino: String(lstatSync(root).ino) });
    await expectLeftover(sandbox, 'a', /another directory took its place/, 77);
    expect(await readdir(root)).toEqual(['work']);
  });

  test.skipIf(!isRoot)("another user's directory at the root's name", async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    await execa('chown', [String(NOBODY), root]);
    await expectLeftover(sandbox, 'a', /belongs to uid 65534/, 77);
    expect(await readdir(root)).toEqual(['gotmp']);
  });

  test('A29 another base at the recorded place: 75, record and both bases as they were', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const elsewhere = `${sandbox.base}.old`;
    await rename(sandbox.base, elsewhere);
    const record = await sandbox.record('a');
    const missing = await sandbox.teardown(['a']);
    expect(missing).toMatchObject({ status: 75, stderr: expect.stringContaining('does not exist now') });
    await mkdir(join(sandbox.base, root.split('/').pop() as string), { recursive: true });
    const other = await sandbox.teardown(['a']);
    expect(other).toMatchObject({ status: 75, stderr: expect.stringContaining('is not the one the task was made in') });
    expect(await sandbox.record('a')).toEqual(record);
    await rm(sandbox.base, { recursive: true });
    await rename(elsewhere, sandbox.base);
    await expectGone(sandbox, 'a', root);
  });
});

describe('A08 a root that cannot go whole', () => {
  test.skipIf(!isRoot)(
    'an immutable file: the rest goes, and once it may, teardown finishes',
    async ({ sandbox, skip }) => {
      const root = await sandbox.finished(
        'a',
        'mkdir "$FM_TASK_TMP/d"; for f in 1 2 3; do : > "$FM_TASK_TMP/d/$f"; done',
      );
      const file = join(root, 'd', '2');
      const { failed } = await execa('chattr', ['+i', file], { reject: false });
      if (failed) skip('no immutable files on this file system');
      try {
        await expectLeftover(sandbox, 'a', /could not be removed.*\/d\/2.*EPERM.*chattr -R -f -ia/, 69);
        expect(await readdir(root)).toEqual(['d']);
        expect(await readdir(join(root, 'd'))).toEqual(['2']);
        expect((await sandbox.spawn(['a', '--', 'true'])).status).toBe(125);
      } finally {
        await execa('chattr', ['-i', file]);
      }
      await expectGone(sandbox, 'a', root);
    },
  );

  test.skipIf(!isRoot)("another user's files in it", async ({ sandbox }) => {
    await sandbox.giveTo(NOBODY);
    const uid = NOBODY;
    await sandbox.spawn(['a', '--', 'sh', '-c', 'mkdir "$FM_TASK_TMP/mine"'], { uid });
    const root = (await sandbox.record('a'))?.tasktmp as string;
    await mkdir(join(root, 'container', 'data'), { recursive: true });
    const plain = await sandbox.teardown(['a'], { uid });
    expect(plain.status).toBe(0);
    expect(plain.stderr).toContain('belongs to uid 0');
    expect(plain.stderr).toContain(`rm -rf -- ${root}`);
    expect(await readdir(root)).toEqual(['container']);
    expect((await sandbox.teardown(['--strict', 'a'], { uid })).status).toBe(69);
    await rm(join(root, 'container'), { recursive: true });
    expect((await sandbox.teardown(['a'], { uid })).status).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  for (const [kind, mount] of [
    ['a bind of the same file system', 'mount --bind "$CANARY"'],
    ['a tmpfs', 'mount -t tmpfs tmpfs'],
  ] as const) {
    test.skipIf(!isRoot)(`B47 a mount in it, ${kind}: refused before the first change`, async ({ sandbox }) => {
      const root = await sandbox.finished('a', 'mkdir -p "$FM_TASK_TMP/a b/mnt" && : > "$FM_TASK_TMP/first"');
      const canary = join(sandbox.path, 'canary');
      await mkdir(join(canary, 'sub'), { recursive: true });
      const before = [describeTree(root), describeTree(canary)];
      const script = `${mount} "$ROOT/a b/mnt" && task-teardown a; echo $?; task-teardown --strict a; echo $?`;
      const env = { ROOT: root, CANARY: canary };
      const { stdout, stderr } = await sandbox.run('unshare', ['-m', 'sh', '-c', script], { env });
      expect(stdout.split('\n')).toEqual(['0', '69']);
      expect(stderr).toContain(JSON.stringify(`${root}/a b/mnt`));
      expect(stderr).toContain('umount');
      expect([describeTree(root), describeTree(canary)]).toEqual(before);
      expect((await sandbox.record('a'))?.state).toBe('leftover');
      await expectGone(sandbox, 'a', root);
    });
  }

  test.skipIf(!isRoot)('B47 the root is itself a mount point', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const script = 'mount --bind "$ROOT" "$ROOT" && task-teardown --strict a; echo $?';
    const { stdout } = await sandbox.run('unshare', ['-m', 'sh', '-c', script], { env: { ROOT: root } });
    expect(stdout).toBe('69');
    expect(await readdir(root)).toEqual(['gotmp']);
  });
});

describe('wherever and however it is called', () => {
  test('several ids: all are attempted and reported once, the worst status is returned', async ({ sandbox }) => {
    const roots = [await sandbox.finished('a'), await sandbox.finished('b')];
    await startTask(sandbox, 'live', ['sleep', '1000']);
    await sandbox.finished('broken');
    await writeFile(sandbox.state('broken.meta'), 'schema=1\n');
    const { status, stderr } = await sandbox.teardown(['live', 'a', 'broken', 'none', 'b', 'a']);
    expect(status).toBe(65);
    expect(stderr.split('\n').map((line) => line.split(' ')[1])).toEqual(['live:', 'a:', 'broken:', 'none:', 'b:']);
    expect(roots.filter(existsSync)).toEqual([]);
    expect((await sandbox.teardown(['live', 'none'])).status).toBe(75);
  });

  test('B08 from a directory that is gone, without its settings, with hostile ones, without any tool', async ({
    sandbox,
  }) => {
    const only = join(sandbox.path, 'only-node');
    await mkdir(only);
    await symlink(process.execPath, join(only, 'node'));
    const teardown = join(sandbox.bin, 'task-teardown');
    const cases: [string, Record<string, string | undefined>, string][] = [
      ['gone', {}, 'mkdir gone && cd gone && rmdir ../gone && task-teardown a'],
      ['TMPDIR', { TMPDIR: '/missing/folder' }, 'task-teardown a'],
      ['NODE_OPTIONS', { NODE_OPTIONS: '--bad', NODE_EXTRA_CA_CERTS: '/missing' }, 'task-teardown a'],
      ['no base', { FM_TASK_TMP_BASE: undefined }, 'task-teardown a'],
      ['another base', { FM_TASK_TMP_BASE: '/missing/base' }, 'task-teardown a'],
      ['empty PATH', { PATH: only }, `exec "${teardown}" a`],
      ['inside the root', {}, 'cd "$ROOT/gotmp" && task-teardown a'],
    ];
    for (const [title, env, script] of cases) {
      const ROOT = await sandbox.finished('a');
      const { status, stderr } = await sandbox.run('/bin/sh', ['-c', script], { env: { ROOT, ...env } });
      expect({ title, status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('removed') });
      expect(existsSync(ROOT)).toBe(false);
    }
  });

  test('A24 a busy lock is waited for, within bounds, and then the record decides', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const letGo = await holdLock(sandbox, 'a');
    const busy = await sandbox.teardown(['--lock-wait', '0.1', 'a']);
    expect(busy).toMatchObject({ status: 75, stderr: expect.stringContaining('is locked') });
    expect(existsSync(root)).toBe(true);
    const waiting = sandbox.teardown(['--lock-wait', '60', 'a']);
    await letGo();
    expect((await waiting).status).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  test('nobody reads what it says: everything goes all the same', async ({ sandbox }) => {
    const roots = [await sandbox.finished('a'), await sandbox.finished('b')];
    const { stdout } = await sandbox.run('sh', ['-c', '{ task-teardown --json a b; echo $? >status; } 2>&1 | true']);
    expect(stdout).toBe('');
    expect(
      (await until('it ended', async () => readFile(join(sandbox.path, 'status'), 'utf8').catch(() => ''))).trim(),
    ).toBe('0');
    expect(roots.filter(existsSync)).toEqual([]);
    const full = await sandbox.run('sh', ['-c', 'task-teardown --json a >/dev/full']);
    expect(full.status).toBe(74);
    expect((await sandbox.run('sh', ['-c', 'task-teardown a 2>/dev/full'])).status).toBe(0);
  });
});

describe.skipIf(!isRoot)('B03 a full disk', () => {
  const fill = 'dd if=/dev/zero of="$FULL/fill" bs=1k 2>/dev/null; dd if=/dev/zero of="$FULL/fill2" bs=1 2>/dev/null';

  test('home and base filled to the last byte: removal works and leaves nothing', async ({ sandbox }) => {
    await mkdir(sandbox.home, { mode: 0o700 });
    const script = `mount -t tmpfs -o size=256k,mode=700 tmpfs "$FM_HOME"
      mount -t tmpfs -o size=256k,mode=755 tmpfs "$FM_TASK_TMP_BASE"
      task-spawn a -- sh -c ': > "$FM_TASK_TMP/file"'
      for FULL in "$FM_HOME" "$FM_TASK_TMP_BASE"; do ${fill}; done
      sh -c 'echo x > "$FM_HOME/more"' && echo not full
      sh -c 'echo x > "$FM_TASK_TMP_BASE/more"' && echo not full
      task-teardown a; echo $?; ls "$FM_HOME/state" "$FM_TASK_TMP_BASE"`;
    const { stdout, stderr } = await sandbox.run('unshare', ['-m', 'sh', '-c', script]);
    expect(stderr).toContain('removed');
    const listed = stdout.replaceAll(sandbox.path, '').split('\n').filter(Boolean);
    expect(listed).toEqual(['0', '/base:', 'fill', 'fill2', 'more', '/home/state:', 'home-id']);
  });

  test('a removal that does not finish is on record as <id>.meta.removing, and the next one does', async ({
    sandbox,
  }) => {
    await mkdir(sandbox.home, { mode: 0o700 });
    const script = `mount -t tmpfs -o size=256k,mode=700 tmpfs "$FM_HOME"
      task-spawn a -- sh -c ': > "$FM_TASK_TMP/1"; : > "$FM_TASK_TMP/2"'
      set -- "$FM_TASK_TMP_BASE"/fm-*
      chattr +i "$1/1"
      FULL=$FM_HOME; ${fill}
      task-teardown --strict a; echo $?; ls "$FM_HOME/state" "$1"
      task-status --json | grep '"state"'
      chattr -i "$1/1"
      task-teardown a; echo $?
      ls "$FM_HOME/state" "$FM_TASK_TMP_BASE"`;
    const { stdout } = await sandbox.run('unshare', ['-m', 'sh', '-c', script]);
    const listed = stdout.replaceAll(sandbox.path, '').split('\n').filter(Boolean);
    expect(listed).toEqual([
      '69',
      expect.stringMatching(/^\/base\/fm-/),
      '1',
      '/home/state:',
      'a.lock',
      'a.meta.removing',
      'home-id',
      expect.stringContaining('removing'),
      '0',
      '/base:',
      '/home/state:',
      'home-id',
    ]);
  });
});

describe('interrupted in the middle of a large tree', () => {
  const make = `import os
root = os.environ["FM_TASK_TMP"]
for d in range(300):
  os.mkdir("%s/%d" % (root, d))
  for f in range(300): os.mknod("%s/%d/%d" % (root, d, f))`;

  withMemory(
    'INT, TERM, KILL: it dies of the signal, the record says removing, and a spawn finishes it',
    async ({ memory }) => {
      await memory.spawn(['a', '--', 'python3', '-c', make]);
      const root = (await memory.record('a'))?.tasktmp as string;
      const interrupt = async (signal: NodeJS.Signals) => {
        const before = (await readdir(root)).length;
        const teardown = memory.start('task-teardown', ['a']);
        await until('entries are gone', async () => (await readdir(root)).length < before - 2);
        teardown.kill(signal);
        expect((await teardown).signal).toBe(signal);
        expect((await readdir(root)).length).toBeGreaterThan(0);
        expect((await memory.record('a'))?.state).toBe('removing');
      };
      await interrupt('SIGINT');
      await interrupt('SIGTERM');
      await interrupt('SIGKILL');
      expect((await memory.status()).tasks).toMatchObject([{ id: 'a', state: 'removing', rootIs: 'own' }]);
      const { status } = await memory.spawn(['a', '--', 'sh', '-c', 'ls "$FM_TASK_TMP"; exit 7']);
      expect(status).toBe(7);
      expect(await readdir(root)).toEqual(['gotmp']);
      await expectGone(memory, 'a', root);
    },
  );

  test('what is on record as removing is finished by the next teardown', async ({ sandbox }) => {
    const root = await sandbox.finished('a', ': > "$FM_TASK_TMP/file"');
    await rm(join(root, 'gotmp'), { recursive: true });
    await sandbox.edit('a', { state: 'removing' });
    await expectGone(sandbox, 'a', root);
  });
});

describe('a launch that died half way', () => {
  const creating = { state: 'creating', tmp_dev: '', tmp_ino: '', tmp_btime: '' };

  test('an empty root born after its record is taken away, with or without gotmp', async ({ sandbox }) => {
    for (const withGotmp of [true, false]) {
      // The record is made before the root, as spawn does.
      const root = await sandbox.finished('a');
      const record = await sandbox.record('a');
      await rm(root, { recursive: true });
      await rm(sandbox.state('a.meta'));
      await sandbox.edit('a', { ...record, ...creating });
      await mkdir(root, { mode: 0o700 });
      if (withGotmp) await mkdir(join(root, 'gotmp'), { mode: 0o700 });
      await expectGone(sandbox, 'a', root);
    }
  });

  test('one with anything in it, or older than the record, stays', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    await sandbox.edit('a', creating);
    const record = await sandbox.record('a');
    await rm(sandbox.state('a.meta'));
    await sandbox.edit('a', record ?? {});
    await expectLeftover(sandbox, 'a', /older than the record/, 77);
    expect(await readdir(root)).toEqual(['gotmp']);
    await rm(root, { recursive: true });
    await rm(sandbox.state('a.meta'));
    await sandbox.edit('a', record ?? {});
    await mkdir(join(root, 'work'), { recursive: true, mode: 0o700 });
    await expectLeftover(sandbox, 'a', /cannot be/, 77);
    expect(await readdir(root)).toEqual(['work']);
    await rmdir(join(root, 'work'));
    await rmdir(root);
    await expectGone(sandbox, 'a', root);
  });
});

test('a base that may be written and not read holds nothing up', async ({ sandbox }) => {
  const uid = isRoot ? NOBODY : undefined;
  if (isRoot) {
    await sandbox.giveTo(NOBODY);
    await execa('chown', ['0', sandbox.base]);
  }
  await chmod(sandbox.base, 0o1733);
  const options = uid === undefined ? {} : { uid };
  expect((await sandbox.spawn(['a', '--', 'true'], options)).status).toBe(0);
  const root = (await sandbox.record('a'))?.tasktmp as string;
  const { status, stderr } = await sandbox.teardown(['a'], options);
  expect({ status, stderr }).toMatchObject({ status: 0 });
  expect(existsSync(root)).toBe(false);
  expect(await sandbox.record('a')).toBeUndefined();
});
