/** Where and how a root is made, kept, refused and taken back: acceptance A09 to A11, A15 to A21, A25, A27 to A29. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { basename, join } from 'node:path';
import { describe, expect } from 'vitest';
import { test } from '../helpers/fast.ts';
import { MountSpace } from '../helpers/mounts.ts';
import { pauseAt, runStruck, strace } from '../helpers/points.ts';
import { isRoot, NOBODY, type Outcome, type Sandbox } from '../helpers/sandbox.ts';
import { snapshot } from '../helpers/tree.ts';
import { until } from '../helpers/until.ts';

const modeOf = (path: string) => (lstatSync(path).mode & 0o7777).toString(8);

/** The root that a task of this id would get. */
async function rootOf(sandbox: Sandbox, id: string): Promise<string> {
  const root = (await sandbox.finished('probe')).replace(/probe$/, id);
  await sandbox.teardown(['probe']);
  return root;
}

function expectRefusal(outcome: Outcome, ...texts: string[]): void {
  expect(outcome).toMatchObject({ status: 125, stdout: '' });
  expect(outcome.stderr.split('\n')).toHaveLength(1);
  for (const text of texts) expect(outcome.stderr).toContain(text);
}

/** The record's very bytes. */
const bytesOf = (sandbox: Sandbox, id: string) => readFileSync(sandbox.state(`${id}.meta`), 'latin1');

describe('A09 a root', () => {
  test.for(['0777', '0', '077'])('has the mode 0700 and a gotmp, under the umask %s', async (umask, { sandbox }) => {
    const script = `umask ${umask}; exec task-spawn x -- sh -c 'umask'`;
    expect(await sandbox.run('sh', ['-c', script])).toMatchObject({ status: 0, stdout: umask.padStart(4, '0') });
    const root = (await sandbox.record('x'))?.tasktmp as string;
    expect([modeOf(root), modeOf(join(root, 'gotmp'))]).toEqual(['700', '700']);
    expect(modeOf(sandbox.state('x.meta'))).toBe('600');
  });

  test('has that mode below a setgid base too', async ({ sandbox }) => {
    chmodSync(sandbox.base, 0o2755);
    const root = await sandbox.finished('x');
    expect([modeOf(root), modeOf(join(root, 'gotmp')), modeOf(sandbox.base)]).toEqual(['700', '700', '2755']);
  });

  test('is accepted by a relaunch, which keeps the content, tightens the mode and makes a missing gotmp', async ({
    sandbox,
  }) => {
    const root = await sandbox.finished(
      'x',
      'echo kept > "$FM_TASK_TMP/file"; rmdir "$GOTMPDIR"; chmod 777 "$FM_TASK_TMP"',
    );
    const before = await sandbox.record('x');
    const { status, stdout } = await sandbox.spawn([
      'x',
      '--',
      'sh',
      '-c',
      'cat "$FM_TASK_TMP/file"; ls -d "$GOTMPDIR"',
    ]);
    expect({ status, stdout }).toEqual({ status: 0, stdout: `kept\n${root}/gotmp` });
    expect(modeOf(root)).toBe('700');
    const after = await sandbox.record('x');
    for (const key of ['token', 'created_at', 'tasktmp', 'tmp_ino', 'tmp_btime'])
      expect(after?.[key]).toBe(before?.[key]);
    expect(after?.spawn_gen).not.toBe(before?.spawn_gen);
  });

  test.skipIf(!isRoot)('whose owner took all permissions away is still opened up', async ({ sandbox }) => {
    await sandbox.giveTo(NOBODY);
    expect(await sandbox.spawn(['x', '--', 'sh', '-c', 'chmod 0 "$FM_TASK_TMP"'], { uid: NOBODY })).toMatchObject({
      status: 0,
    });
    expect(await sandbox.spawn(['x', '--', 'sh', '-c', ': > "$GOTMPDIR/f"'], { uid: NOBODY })).toMatchObject({
      status: 0,
    });
    expect(await sandbox.teardown(['x'], { uid: NOBODY })).toMatchObject({ status: 0 });
    expect(readdirSync(sandbox.base)).toEqual([]);
  });

  test('that is missing is made again by a relaunch', async ({ sandbox }) => {
    const root = await sandbox.finished('x');
    rmSync(root, { recursive: true });
    expect(await sandbox.finished('x', 'test -d "$GOTMPDIR"')).toBe(root);
    expect((await sandbox.record('x'))?.tmp_ino).toBe(String(lstatSync(root, { bigint: true }).ino));
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
    expect(existsSync(root)).toBe(false);
  });
});

describe('what stands at the root already', () => {
  const obstacles: Record<string, { kind: string; plant: (path: string, aside: string) => unknown; root?: true }> = {
    'A10 a link to a directory': {
      kind: 'a symbolic link',
      plant: (path, aside) => {
        mkdirSync(aside);
        symlinkSync(aside, path);
      },
    },
    'A10 a link to a file': {
      kind: 'a symbolic link',
      plant: (path, aside) => {
        writeFileSync(aside, '');
        symlinkSync(aside, path);
      },
    },
    'A10 a dangling link': { kind: 'a symbolic link', plant: (path, aside) => symlinkSync(aside, path) },
    'A11 a regular file': { kind: 'a file', plant: (path) => writeFileSync(path, 'content') },
    'A11 a fifo': { kind: 'a fifo', plant: (path) => execFileSync('mkfifo', [path]) },
    'A11 a socket': {
      kind: 'a socket',
      plant: (path) =>
        execFileSync(
          process.execPath,
          [
            '-e',
            `require('net').createServer().listen(${JSON.stringify(path)}, () => process.kill(process.pid, 'SIGKILL'))`,
          ],
          { stdio: 'ignore' },
        ),
    },
    'A11 an own directory without a record': {
      kind: 'a directory',
      plant: (path) => {
        mkdirSync(path);
        writeFileSync(join(path, 'f'), '');
      },
    },
    "A11 another user's directory": {
      kind: `a directory of uid ${NOBODY}`,
      plant: (path) => execFileSync('install', ['-d', '-o', String(NOBODY), path]),
      root: true,
    },
  };
  for (const [title, { kind, plant, root }] of Object.entries(obstacles)) {
    test.skipIf(root && !isRoot)(`${title} is refused and left as it is`, async ({ sandbox }) => {
      const path = await rootOf(sandbox, 'x');
      try {
        plant(path, join(sandbox.path, 'aside'));
      } catch (error) {
        // The socket's maker ends by a signal.
        if (title !== 'A11 a socket') throw error;
      }
      const before = snapshot(sandbox.path);
      expectRefusal(await sandbox.spawn(['x', '--', 'true']), path, kind, 'untouched');
      expect(snapshot(sandbox.path)).toEqual(before);
    });
  }

  test('A10 a link that appears after the look is not followed, and the record is taken back', async ({ sandbox }) => {
    const path = await rootOf(sandbox, 'x');
    const { resume } = await pauseAt(sandbox, { call: 'rename', when: 1 }, 'task-spawn', ['x', '--', 'true']);
    expect((await sandbox.record('x'))?.tasktmp).toBe(path);
    const aside = join(sandbox.path, 'aside');
    mkdirSync(aside);
    symlinkSync(aside, path);
    expectRefusal(await resume(), path, 'EEXIST', 'untouched');
    expect(readdirSync(aside)).toEqual([]);
    expect(lstatSync(path).isSymbolicLink()).toBe(true);
    expect(readdirSync(sandbox.state(''))).toEqual(['home-id']);
  });
});

describe('A15 spellings', () => {
  test('a relative FM_HOME becomes absolute', async ({ sandbox }) => {
    const { status, stdout } = await sandbox.spawn(['x', '--', 'sh', '-c', 'echo "$FM_HOME"'], {
      env: { FM_HOME: 'home' },
    });
    expect({ status, stdout }).toEqual({ status: 0, stdout: sandbox.home });
    expect((await sandbox.record('x'))?.home).toBe(sandbox.home);
  });

  test('a relative base is refused by name', async ({ sandbox }) => {
    expectRefusal(
      await sandbox.spawn(['x', '--', 'true'], { env: { FM_TASK_TMP_BASE: 'base' } }),
      'FM_TASK_TMP_BASE base is relative',
    );
    expectRefusal(await sandbox.spawn(['--base', './base', 'x', '--', 'true']), '--base ./base is relative');
    expect(readdirSync(sandbox.base)).toEqual([]);
    expect(existsSync(sandbox.home)).toBe(false);
  });

  test('symlinked spellings of home and base name the same task', async ({ sandbox }) => {
    const env = { FM_HOME: join(sandbox.path, 'home-link'), FM_TASK_TMP_BASE: join(sandbox.path, 'base-link') };
    mkdirSync(sandbox.home, 0o700);
    symlinkSync(sandbox.home, env.FM_HOME);
    symlinkSync(sandbox.base, env.FM_TASK_TMP_BASE);
    expect(await sandbox.spawn(['x', '--', 'true'], { env })).toMatchObject({ status: 0 });
    const record = await sandbox.record('x');
    expect(record).toMatchObject({ home: sandbox.home, base: sandbox.base });
    expect(await sandbox.spawn(['--base', env.FM_TASK_TMP_BASE, 'x', '--', 'true'])).toMatchObject({ status: 0 });
    // And teardown needs no base.
    expect(await sandbox.teardown(['x'], { env: { ...env, FM_TASK_TMP_BASE: undefined } })).toMatchObject({
      status: 0,
    });
    expect(existsSync(record?.tasktmp as string)).toBe(false);
  });
});

describe('a spawn that aborts', () => {
  /** Runs a spawn of x whose how-many-eth mkdir fails. */
  const failAt = (sandbox: Sandbox, when: number) =>
    strace(sandbox, join(sandbox.path, 'log'), ['-e', `inject=mkdir:error=EIO:when=${when}`], 'task-spawn', [
      'x',
      '--',
      'true',
    ]);

  test('A16 takes a fresh root back', async ({ sandbox }) => {
    await rootOf(sandbox, 'x');
    expectRefusal(await failAt(sandbox, 2), 'gotmp', 'EIO');
    expect(readdirSync(sandbox.base)).toEqual([]);
    expect(readdirSync(sandbox.state(''))).toEqual(['home-id']);
  });

  test.for(['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT'] as const)(
    'A16 by %s takes a fresh root back, or left a dead task',
    async (signal, { sandbox }) => {
      const root = await rootOf(sandbox, 'x');
      const { pid, resume } = await pauseAt(sandbox, { call: 'mkdir', when: 1 }, 'task-spawn', [
        'x',
        '--',
        'echo',
        'ran',
      ]);
      expect(readdirSync(root)).toEqual([]);
      process.kill(pid, signal);
      expectRefusal(await resume(), `aborted by ${signal}`);
      // Whichever thread takes the signal may do so only after the launch was published.
      const state = (await sandbox.record('x'))?.state;
      expect([state, existsSync(root)]).toEqual(state === undefined ? [undefined, false] : ['active', true]);
    },
  );

  test('A17 leaves a root that was there, its mode and its record as they were', async ({ sandbox }) => {
    const root = await sandbox.finished(
      'x',
      'echo kept > "$FM_TASK_TMP/file"; rmdir "$GOTMPDIR"; chmod 750 "$FM_TASK_TMP"',
    );
    const [record, before] = [bytesOf(sandbox, 'x'), snapshot(root)];
    expectRefusal(await failAt(sandbox, 1), 'gotmp', 'EIO');
    expect(snapshot(root)).toEqual(before);
    expect(bytesOf(sandbox, 'x')).toBe(record);
  });

  test('A17 takes the root back that it made for a relaunch, and the record says again what it said', async ({
    sandbox,
  }) => {
    const root = await sandbox.finished('x');
    const record = bytesOf(sandbox, 'x');
    rmSync(root, { recursive: true });
    expectRefusal(await failAt(sandbox, 2), 'gotmp', 'EIO');
    expect(existsSync(root)).toBe(false);
    expect(bytesOf(sandbox, 'x')).toBe(record);
  });

  test("A17 puts an orchestrator's notes back byte for byte; killed, it leaves root and notes to the record", async ({
    sandbox,
  }) => {
    const root = await rootOf(sandbox, 'x');
    const notes = 'window=a b=c\nZ-odd key=\n';
    writeFileSync(sandbox.state('x.meta'), notes);
    expectRefusal(await failAt(sandbox, 2), 'gotmp', 'EIO');
    expect(existsSync(root)).toBe(false);
    expect(bytesOf(sandbox, 'x')).toBe(notes);

    await runStruck(sandbox, { call: 'mkdir', when: 2 }, 'KILL', 'task-spawn', ['x', '--', 'true']);
    expect(existsSync(root)).toBe(true);
    expect(await sandbox.record('x')).toMatchObject({ state: 'creating', tasktmp: root, window: 'a b=c' });
    // A spawn that finds this and is killed as well, or refused, clears the root and loses no note.
    await runStruck(sandbox, { call: 'rename', when: 1 }, 'KILL', 'task-spawn', ['x', '--', 'true']);
    expect(await sandbox.record('x')).toMatchObject({ state: 'creating', tasktmp: root, window: 'a b=c' });
    expectRefusal(await sandbox.spawn(['--base', '/nowhere', 'x', '--', 'true']), '/nowhere does not exist');
    expect(existsSync(root)).toBe(false);
    expect(bytesOf(sandbox, 'x')).toBe(notes);
    await sandbox.finished('x');
    expect(bytesOf(sandbox, 'x').endsWith(notes)).toBe(true);
  });

  test('A19 a file in the place of gotmp: the root goes too', async ({ sandbox }) => {
    const root = await rootOf(sandbox, 'x');
    const { resume } = await pauseAt(sandbox, { call: 'mkdir', when: 1 }, 'task-spawn', ['x', '--', 'true']);
    writeFileSync(join(root, 'gotmp'), 'in the way');
    expectRefusal(await resume(), `${root}/gotmp`, 'EEXIST');
    expect(readdirSync(sandbox.base)).toEqual([]);
    expect(readdirSync(sandbox.state(''))).toEqual(['home-id']);
  });

  test('A19 no quota for gotmp: the root goes too, and the free space is named', async ({ sandbox }) => {
    await rootOf(sandbox, 'x');
    const inject = ['-e', 'inject=mkdir:error=EDQUOT:when=2'];
    const outcome = await strace(sandbox, join(sandbox.path, 'log'), inject, 'task-spawn', ['x', '--', 'true']);
    expectRefusal(outcome, 'gotmp', 'EDQUOT', `${sandbox.base} has `, 'KiB and ');
    expect(readdirSync(sandbox.base)).toEqual([]);
    expect(await sandbox.record('x')).toBeUndefined();
  });

  test.skipIf(!isRoot).for([1, 2])('A19 a base with inodes for %i: nothing is left', async (inodes, { sandbox }) => {
    const space = await MountSpace.open(sandbox, `mount -t tmpfs -o size=1m,mode=755,nr_inodes=${inodes} tmpfs base`);
    try {
      expectRefusal(
        await space.run('task-spawn', ['x', '--', 'true']),
        'ENOSPC',
        `${sandbox.base} has `,
        'inodes free',
      );
      expect(readdirSync(space.at(sandbox.base))).toEqual([]);
      expect(readdirSync(sandbox.state(''))).toEqual(['home-id']);
    } finally {
      await space.close();
    }
  });

  test('A20 after publication takes nothing back: it is a dead task', async ({ sandbox }) => {
    const root = await rootOf(sandbox, 'x');
    const { pid, resume } = await pauseAt(sandbox, { call: 'rename', when: 2 }, 'task-spawn', [
      'x',
      '--',
      'echo',
      'ran',
    ]);
    process.kill(pid, 'SIGTERM');
    expectRefusal(await resume(), 'aborted by SIGTERM');
    expect(existsSync(join(root, 'gotmp'))).toBe(true);
    expect(await sandbox.record('x')).toMatchObject({
      state: 'active',
      tmp_ino: String(lstatSync(root, { bigint: true }).ino),
    });
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'x', state: 'finished', rootIs: 'own' }]);
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
    expect(existsSync(root)).toBe(false);
  });

  test('that cannot take its root back leaves it on record as leftover', async ({ sandbox }) => {
    const root = await rootOf(sandbox, 'x');
    const inject = ['-e', 'inject=mkdir:error=EIO:when=2', '-e', 'inject=rmdir:error=EIO:when=1'];
    const outcome = await strace(sandbox, join(sandbox.path, 'log'), inject, 'task-spawn', ['x', '--', 'true']);
    expectRefusal(outcome, 'EIO', 'could not be taken back', 'task-teardown x');
    expect(await sandbox.record('x')).toMatchObject({ state: 'leftover', tasktmp: root });
    expect(await sandbox.teardown(['--strict', 'x'])).toMatchObject({ status: 0 });
    expect(existsSync(root)).toBe(false);
    expect(await sandbox.record('x')).toBeUndefined();
  });
});

test('A21 keys of others survive relaunch, teardown and --set', async ({ sandbox }) => {
  const root = await sandbox.finished('x');
  await sandbox.edit('x', { window: 'a=b', 'Odd-Key': '' });
  await sandbox.finished('x');
  expect(await sandbox.record('x')).toMatchObject({ window: 'a=b', 'Odd-Key': '', state: 'active' });
  rmSync(root, { recursive: true });
  mkdirSync(root);
  expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
  expect(await sandbox.record('x')).toMatchObject({ window: 'a=b', 'Odd-Key': '', state: 'leftover' });
});

test('A25 two homes, one id, one base: two roots, and one goes without the other', async ({ sandbox }) => {
  const one = await sandbox.finished('x');
  const env = { FM_HOME: join(sandbox.path, 'other') };
  expect(await sandbox.spawn(['x', '--', 'sh', '-c', ': > "$FM_TASK_TMP/f"'], { env })).toMatchObject({ status: 0 });
  const other = readdirSync(sandbox.base)
    .map((name) => join(sandbox.base, name))
    .find((path) => path !== one) as string;
  const before = snapshot(other);
  expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
  expect(snapshot(other)).toEqual(before);
  expect(existsSync(one)).toBe(false);
});

describe('A27 the state table: spawn finds', () => {
  const again = ['x', '--', 'sh', '-c', 'ls "$FM_TASK_TMP"'];
  const strike = (sandbox: Sandbox, call: string, when: number, command = 'task-spawn', args = ['x', '--', 'true']) =>
    runStruck(sandbox, { call, when }, 'KILL', command, args);
  const elsewhere = { host: `${'0'.repeat(32)} elsewhere`, boot_id: '00000000-0000-4000-8000-000000000000' };

  test('none: fresh', async ({ sandbox }) => {
    expect(await sandbox.spawn(again)).toMatchObject({ status: 0, stdout: 'gotmp' });
  });

  test('a record without schema: fresh, its keys kept', async ({ sandbox }) => {
    await rootOf(sandbox, 'x');
    writeFileSync(sandbox.state('x.meta'), 'window=1\n');
    expect(await sandbox.spawn(again)).toMatchObject({ status: 0, stdout: 'gotmp' });
    expect(await sandbox.record('x')).toMatchObject({ schema: '1', window: '1' });
  });

  test('active and dead: relaunch', async ({ sandbox }) => {
    await sandbox.finished('x', ': > "$FM_TASK_TMP/kept"');
    expect(await sandbox.spawn(again)).toMatchObject({ status: 0, stdout: 'gotmp\nkept', stderr: '' });
  });

  test('A29 active and dead, but another base in its place: refused, and teardown keeps it', async ({ sandbox }) => {
    const root = await sandbox.finished('x');
    renameSync(sandbox.base, `${sandbox.base}-aside`);
    const record = bytesOf(sandbox, 'x');
    for (const what of ['does not exist', 'is not the one']) {
      expectRefusal(await sandbox.spawn(again), root, what, '--forget x');
      expect(await sandbox.teardown(['x'])).toMatchObject({ status: 75, stderr: expect.stringContaining(what) });
      if (!existsSync(sandbox.base)) mkdirSync(sandbox.base);
    }
    expect(bytesOf(sandbox, 'x')).toBe(record);
    expect(readdirSync(sandbox.base)).toEqual([]);
    expect(readdirSync(`${sandbox.base}-aside`)).toEqual([basename(root)]);
  });

  test('A28 active and dead, but another directory with the very inode of its root: refused, kept', async ({
    sandbox,
  }) => {
    const root = await sandbox.finished('x', ': > "$FM_TASK_TMP/f"');
    rmSync(root, { recursive: true });
    mkdirSync(root, 0o700);
    writeFileSync(join(root, 'mine'), '');
    // Where the file system hands the inode on at once this is true of its own; elsewhere it is put in the record.
    await sandbox.edit('x', { tmp_ino: String(lstatSync(root, { bigint: true }).ino) });
    const [before, record] = [snapshot(root), bytesOf(sandbox, 'x')];
    expectRefusal(await sandbox.spawn(again), root, 'another directory took its place', 'untouched');
    expect(bytesOf(sandbox, 'x')).toBe(record);
    expect(await sandbox.teardown(['--strict', 'x'])).toMatchObject({ status: 77 });
    expect(snapshot(root)).toEqual(before);
    expect((await sandbox.record('x'))?.state).toBe('leftover');
  });

  test('running: refused, names the pid', async ({ sandbox }) => {
    const running = sandbox.start('task-spawn', ['x', '--', 'sleep', '1000']);
    await until('it runs', async () => (await sandbox.record('x'))?.state === 'active');
    expectRefusal(await sandbox.spawn(again), `it is running as pid ${running.pid}`);
    running.kill('SIGKILL');
    await running;
    expect(await sandbox.spawn(again)).toMatchObject({ status: 0 });
  });

  test('held: refused', async ({ sandbox }) => {
    await sandbox.finished('x');
    await sandbox.edit('x', { state: 'held', pid: '', pid_start: '', tty_nr: '' });
    expectRefusal(await sandbox.spawn(again), 'it is held');
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
  });

  test('detached: refused, names the processes', async ({ sandbox }) => {
    await sandbox.finished('x', 'sleep 1000 > /dev/null 2>&1 & echo $! > "$FM_TASK_TMP/pid"');
    const pid = readFileSync(join((await sandbox.record('x'))?.tasktmp as string, 'pid'), 'latin1').trim();
    expectRefusal(await sandbox.spawn(again), 'processes of it live', `${pid} (s`);
    process.kill(Number(pid), 'SIGKILL');
    await until('it is over', async () => (await sandbox.spawn(again)).status === 0);
  });

  test('of another machine: refused, kept', async ({ sandbox }) => {
    await sandbox.finished('x');
    for (const changes of [elsewhere, { pid_ns: '1' }, { boot_id: '-' }]) {
      const record = bytesOf(sandbox, 'x');
      await sandbox.edit('x', changes);
      expectRefusal(await sandbox.spawn(again), 'another machine, container or pid namespace');
      expect(await sandbox.teardown(['x'])).toMatchObject({ status: 75 });
      writeFileSync(sandbox.state('x.meta'), record, 'latin1');
    }
  });

  test.for(['mkdir 1', 'mkdir 2', 'rename 2'])(
    'creating, killed before %s: finished, then fresh',
    async (point, { sandbox }) => {
      await rootOf(sandbox, 'x');
      const [call, when] = point.split(' ') as [string, string];
      await strike(sandbox, call, Number(when));
      expect((await sandbox.record('x'))?.state).toBe('creating');
      const token = (await sandbox.record('x'))?.token;
      expect(await sandbox.spawn(again)).toMatchObject({ status: 0, stdout: 'gotmp' });
      expect((await sandbox.record('x'))?.token).not.toBe(token);
    },
  );

  test('creating, with something in its root: kept, until that is gone', async ({ sandbox }) => {
    const root = await rootOf(sandbox, 'x');
    await strike(sandbox, 'mkdir', 2);
    writeFileSync(join(root, 'f'), '');
    expectRefusal(await sandbox.spawn(again), root, 'ENOTEMPTY', 'task-teardown x');
    // The reason is on record, and that record is younger than the root: what it announced is still proven.
    expect(await sandbox.teardown(['--strict', 'x'])).toMatchObject({
      status: 77,
      stderr: expect.stringContaining('ENOTEMPTY'),
    });
    rmSync(join(root, 'f'));
    expect(await sandbox.teardown(['--strict', 'x'])).toMatchObject({ status: 0 });
    expect(readdirSync(sandbox.base)).toEqual([]);
  });

  test('creating, but the directory is older than the record: kept', async ({ sandbox }) => {
    const root = await rootOf(sandbox, 'x');
    await strike(sandbox, 'mkdir', 1);
    mkdirSync(root);
    // The file is written anew, so that it is younger.
    const record = bytesOf(sandbox, 'x');
    rmSync(sandbox.state('x.meta'));
    await until('the clock went on', () => {
      writeFileSync(join(sandbox.path, 'clock'), '');
      return (
        lstatSync(join(sandbox.path, 'clock'), { bigint: true }).mtimeNs > lstatSync(root, { bigint: true }).birthtimeNs
      );
    });
    writeFileSync(sandbox.state('x.meta'), record, 'latin1');
    expectRefusal(await sandbox.spawn(again), root, 'it is older than the record');
    expect(readdirSync(sandbox.base)).toEqual([basename(root)]);
  });

  test.for(['creating', 'removing'])('%s of another machine: refused, kept as it is', async (state, { sandbox }) => {
    const root = await sandbox.finished('x');
    await sandbox.edit('x', { ...elsewhere, state });
    const [record, before] = [bytesOf(sandbox, 'x'), snapshot(root)];
    expectRefusal(await sandbox.spawn(again), 'another machine', 'kept');
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 75 });
    expect(bytesOf(sandbox, 'x')).toBe(record);
    expect(snapshot(root)).toEqual(before);
  });

  test('removing: finished, then fresh', async ({ sandbox }) => {
    await sandbox.finished('x', 'mkdir "$FM_TASK_TMP/d"; : > "$FM_TASK_TMP/d/f"');
    await strike(sandbox, 'fsync', 2, 'task-teardown', ['x']);
    expect((await sandbox.record('x'))?.state).toBe('removing');
    expect(await sandbox.spawn(again)).toMatchObject({ status: 0, stdout: 'gotmp' });
  });

  test('leftover: refused with reason and way out', async ({ sandbox }) => {
    await sandbox.finished('x');
    await sandbox.edit('x', { state: 'leftover', leftover_reason: 'a reason' });
    expectRefusal(await sandbox.spawn(again), 'leftover (a reason)', 'task-teardown x');
  });

  test('unreadable, or of a home at another path: refused with the way out', async ({ sandbox }) => {
    await sandbox.finished('x');
    await sandbox.edit('x', { home: '/elsewhere' });
    expectRefusal(await sandbox.spawn(again), sandbox.state('x.meta'), 'a home at another path', '--forget x');
    writeFileSync(sandbox.state('x.meta'), '');
    expectRefusal(await sandbox.spawn(again), sandbox.state('x.meta'), 'it is empty', '--forget x');
  });
});

describe('a relaunch', () => {
  test('stays in the recorded base: another --base is refused, the environment is not asked', async ({ sandbox }) => {
    const root = await sandbox.finished('x');
    const other = join(sandbox.path, 'other');
    mkdirSync(other);
    expectRefusal(await sandbox.spawn(['--base', other, 'x', '--', 'true']), `lives in the base ${sandbox.base}`);
    const env = { FM_TASK_TMP_BASE: other };
    expect(await sandbox.spawn(['x', '--', 'sh', '-c', 'echo $FM_TASK_TMP'], { env })).toMatchObject({
      status: 0,
      stdout: root,
    });
    expect(await sandbox.spawn(['--base', `${sandbox.base}/`, 'x', '--', 'true'], { env })).toMatchObject({
      status: 0,
    });
    expect(readdirSync(other)).toEqual([]);
  });
});

describe('with the pin on', () => {
  test('a root that leaves too little of a socket path is refused; without it it is no matter', async ({ sandbox }) => {
    // 107 bytes for the whole path on Linux, 103 on macOS; 45 of them for the name, and the slash.
    const most = (process.platform === 'linux' ? 107 : 103) - 45 - 1;
    const room = most - (await rootOf(sandbox, '')).length;
    const [fits, long] = ['i'.repeat(room), 'i'.repeat(room + 1)];
    expect(await sandbox.spawn(['--pin', fits, '--', 'true'])).toMatchObject({ status: 0 });
    expectRefusal(await sandbox.spawn(['--pin', long, '--', 'true']), 'leaves 44 bytes', '--no-pin');
    expect(await sandbox.record(long)).toBeUndefined();
    expect(await sandbox.spawn([long, '--', 'true'])).toMatchObject({ status: 0 });
    expectRefusal(await sandbox.spawn(['--pin', long, '--', 'true']), 'leaves 44 bytes');
  });
});
