/** Homes and bases that can be used, and those that cannot: one clear line each, and nothing changed outside. */

import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  chownSync,
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
import { mkdir, readdir, symlink } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect } from 'vitest';
import { test } from '../helpers/fast.ts';
import { MountSpace } from '../helpers/mounts.ts';
import { isRoot, NOBODY, type Outcome, type RunOptions, type Sandbox } from '../helpers/sandbox.ts';
import { snapshot } from '../helpers/tree.ts';

function expectLine(outcome: Outcome, status: number, ...texts: string[]): void {
  expect(outcome).toMatchObject({ status, stdout: '' });
  expect(outcome.stderr.split('\n')).toHaveLength(1);
  for (const text of texts) expect(outcome.stderr).toContain(text);
}

/** Spawn 125, teardown and status 78, one line each that holds the texts; the whole sandbox is as it was. */
async function expectUnusable(sandbox: Sandbox, options: RunOptions, ...texts: string[]): Promise<void> {
  const before = snapshot(sandbox.path);
  expectLine(await sandbox.spawn(['x', '--', 'echo', 'ran'], options), 125, ...texts);
  expectLine(await sandbox.teardown(['x'], options), 78, ...texts);
  expectLine(await sandbox.run('task-status', [], options), 78, ...texts);
  expect(snapshot(sandbox.path)).toEqual(before);
}

/** The same for what only spawn looks at. */
async function expectRefused(sandbox: Sandbox, args: string[], options: RunOptions, ...texts: string[]): Promise<void> {
  const before = snapshot(sandbox.path);
  expectLine(await sandbox.spawn([...args, 'x', '--', 'echo', 'ran'], options), 125, ...texts);
  expect(snapshot(sandbox.path)).toEqual(before);
}

const modeOf = (path: string) => (lstatSync(path).mode & 0o7777).toString(8);

describe('a home is made', () => {
  test('by spawn alone, private, with its parents, and its home-id once', async ({ sandbox }) => {
    const home = join(sandbox.path, 'a/b/home');
    expectLine(await sandbox.teardown(['x'], { env: { FM_HOME: home } }), 0, `no home at ${home} (from FM_HOME)`);
    expectLine(await sandbox.teardown(['--home', home, 'x']), 78, `no home at ${home} (from --home)`);
    expect(readdirSync(sandbox.path)).toEqual(['base']);
    expect(await sandbox.run('sh', ['-c', 'umask 0; exec task-spawn --home a/b/home x -- true'])).toMatchObject({
      status: 0,
    });
    for (const path of ['a', 'a/b', 'a/b/home', 'a/b/home/state']) expect(modeOf(join(sandbox.path, path))).toBe('700');
    expect(readFileSync(join(home, 'state/home-id'), 'latin1')).toMatch(/^[0-9a-f]{32}\n$/);
    expect(modeOf(join(home, 'state/home-id'))).toBe('600');
    expect(readdirSync(join(home, 'state')).sort()).toEqual(['home-id', 'x.lock', 'x.meta']);
  });

  test('by 20 spawns at once: one home-id, one tag', async ({ sandbox }) => {
    const spawned = await Promise.all(Array.from({ length: 20 }, (_, n) => sandbox.spawn([`x${n}`, '--', 'true'])));
    for (const outcome of spawned) expect(outcome).toMatchObject({ status: 0, stderr: '' });
    const tags = new Set(readdirSync(sandbox.base).map((name) => name.slice(0, 'fm-01234567'.length)));
    expect(tags.size).toBe(1);
    expect(readdirSync(sandbox.base)).toHaveLength(20);
    expect(readdirSync(sandbox.state('')).filter((name) => !name.startsWith('x'))).toEqual(['home-id']);
  });

  test('below XDG_STATE_HOME, else HOME, when nothing names it', async ({ sandbox }) => {
    const env = { FM_HOME: undefined, HOME: join(sandbox.path, 'h'), XDG_STATE_HOME: join(sandbox.path, 'xdg') };
    mkdirSync(env.HOME);
    expect(await sandbox.spawn(['x', '--', 'true'], { env })).toMatchObject({ status: 0 });
    expect(existsSync(join(env.XDG_STATE_HOME, 'task-spawn/state/x.meta'))).toBe(true);
    expect(await sandbox.spawn(['x', '--', 'true'], { env: { ...env, XDG_STATE_HOME: 'relative' } })).toMatchObject({
      status: 0,
    });
    expect(existsSync(join(env.HOME, '.local/state/task-spawn/state/x.meta'))).toBe(true);
    expectLine(await sandbox.teardown(['x'], { env: { FM_HOME: undefined, HOME: undefined } }), 78, 'HOME is not set');
  });

  test('an existing one of ours is used as it is; only state/ is tightened', async ({ sandbox }) => {
    mkdirSync(sandbox.home, 0o755);
    mkdirSync(join(sandbox.home, 'state'), 0o755);
    await sandbox.finished('x');
    expect([modeOf(sandbox.home), modeOf(sandbox.state(''))]).toEqual(['755', '700']);
    chmodSync(sandbox.state(''), 0o777);
    await sandbox.status();
    expect(modeOf(sandbox.state('')), 'status changes nothing').toBe('777');
    await sandbox.teardown(['x']);
    expect(modeOf(sandbox.state(''))).toBe('700');
  });
});

describe('a home-id', () => {
  const damages: Record<string, { text: string; damage: (path: string) => unknown }> = {
    'that is missing while records exist': { text: 'is missing while records exist', damage: (path) => rmSync(path) },
    'that is empty': { text: 'is malformed', damage: (path) => writeFileSync(path, '') },
    'cut off': { text: 'is malformed', damage: (path) => writeFileSync(path, readFileSync(path).subarray(0, 20)) },
    'of capital letters': { text: 'is malformed', damage: (path) => writeFileSync(path, `${'A'.repeat(32)}\n`) },
    'that is a link': {
      text: 'cannot be read',
      damage: (path) => {
        renameSync(path, `${path}-good`);
        symlinkSync(`${path}-good`, path);
      },
    },
    'that is a directory': {
      text: 'is not a regular file',
      damage: (path) => {
        rmSync(path);
        mkdirSync(path);
      },
    },
    'that is a fifo': {
      text: 'is not a regular file',
      damage: (path) => {
        rmSync(path);
        execFileSync('mkfifo', [path]);
      },
    },
  };
  for (const [title, { text, damage }] of Object.entries(damages)) {
    test(`${title} is never made anew`, async ({ sandbox }) => {
      await sandbox.finished('x');
      damage(sandbox.state('home-id'));
      await expectUnusable(sandbox, {}, sandbox.state('home-id'), text, 'orphan');
    });
  }

  test('that is missing beside nothing but notes is made', async ({ sandbox }) => {
    await sandbox.finished('x');
    await sandbox.teardown(['x']);
    rmSync(sandbox.state('home-id'));
    writeFileSync(sandbox.state('y.meta'), 'window=1\n');
    await sandbox.finished('x');
  });
});

describe('a home that cannot be used', () => {
  test('is a file, or lies below one', async ({ sandbox }) => {
    writeFileSync(sandbox.home, '');
    await expectUnusable(sandbox, {}, sandbox.home, 'is not a directory');
    await expectRefused(sandbox, ['--home', join(sandbox.home, 'below')], {}, 'cannot make the home');
  });

  test('is a dangling link', async ({ sandbox }) => {
    symlinkSync(join(sandbox.path, 'nowhere'), sandbox.home);
    await expectRefused(sandbox, [], {}, sandbox.home, 'cannot make the home');
  });

  test('can be written by others, itself or an ancestor that is not sticky', async ({ sandbox }) => {
    await sandbox.finished('x');
    for (const mode of [0o720, 0o702, 0o1777]) {
      chmodSync(sandbox.home, mode);
      await expectUnusable(sandbox, {}, sandbox.home, 'can be written by others');
    }
    chmodSync(sandbox.home, 0o700);
    chmodSync(sandbox.path, 0o777);
    await expectUnusable(sandbox, {}, `ancestor ${sandbox.path}`, 'not sticky');
    await expectRefused(
      sandbox,
      ['--home', join(sandbox.path, 'new/home')],
      {},
      `ancestor ${sandbox.path}`,
      'not sticky',
    );
    chmodSync(sandbox.path, 0o1777);
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
  });

  test.skipIf(!isRoot)('belongs to another user, as does its state/ or an ancestor', async ({ sandbox }) => {
    await sandbox.finished('x');
    chownSync(sandbox.home, NOBODY, NOBODY);
    await expectUnusable(sandbox, {}, sandbox.home, `belongs to uid ${NOBODY}`);
    chownSync(sandbox.home, 0, 0);
    chownSync(sandbox.state(''), NOBODY, NOBODY);
    await expectUnusable(sandbox, {}, sandbox.state('').replace(/\/$/, ''), 'is not a directory of uid 0');
    chownSync(sandbox.state(''), 0, 0);
    chownSync(sandbox.path, NOBODY, NOBODY);
    await expectUnusable(sandbox, {}, `ancestor ${sandbox.path}`, `belongs to uid ${NOBODY}`);
  });

  test.skipIf(!isRoot)('cannot be made, read or written by a normal user', async ({ sandbox }) => {
    const options = { uid: NOBODY };
    await expectRefused(sandbox, [], options, sandbox.home, 'EACCES');
    mkdirSync(join(sandbox.path, 'closed'), 0o700);
    const env = { FM_HOME: join(sandbox.path, 'closed/home') };
    await expectUnusable(sandbox, { ...options, env }, 'closed/home cannot be looked at', 'EACCES');
    await sandbox.giveTo(NOBODY);
    mkdirSync(sandbox.home);
    chownSync(sandbox.home, NOBODY, NOBODY);
    chmodSync(sandbox.home, 0o500);
    await expectRefused(sandbox, [], options, sandbox.home, 'EACCES');
  });

  test('has a state/ that is a link or a file', async ({ sandbox }) => {
    await sandbox.finished('x');
    const state = sandbox.state('').replace(/\/$/, '');
    renameSync(state, `${state}-aside`);
    symlinkSync(`${state}-aside`, state);
    await expectUnusable(sandbox, {}, state, 'is not a directory');
    rmSync(state);
    writeFileSync(state, '');
    await expectUnusable(sandbox, {}, state, 'is not a directory');
  });

  test.for([
    ['~/home', 'begins with "~"'],
    ['', 'is empty'],
    ['/a\nb', 'line break'],
    ['/a\rb', 'line break'],
    ['/a\xff', 'not valid UTF-8'],
  ] as const)('is spelled %j', async ([spelling, text], { sandbox }) => {
    const shell = (line: string) =>
      sandbox.run('sh', ['-c', `H=$(printf '${spelling.replace('\xff', '\\377')}.'); H=\${H%.}; ${line}`]);
    const before = snapshot(sandbox.path);
    expectLine(await shell('FM_HOME="$H" exec task-spawn x -- true'), 125, 'FM_HOME', text);
    expectLine(await shell('exec task-spawn --home "$H" x -- true'), 125, '--home', text);
    expectLine(await shell('FM_HOME="$H" exec task-teardown x'), 78, 'FM_HOME', text);
    expectLine(await shell('exec task-spawn --base "$H" x -- true'), 125, '--base', text);
    expectLine(await shell('FM_TASK_TMP_BASE="$H" exec task-spawn x -- true'), 125, 'FM_TASK_TMP_BASE', text);
    expect(snapshot(sandbox.path)).toEqual(before);
  });

  test('is relative in a directory that no longer exists', async ({ sandbox }) => {
    const script = 'mkdir gone && cd gone && rmdir ../gone && FM_HOME=home exec task-teardown x';
    const { status, stderr } = await sandbox.run('sh', ['-c', script]);
    // Some shells have a word to say about such a directory themselves.
    expect({ status, line: stderr.split('\n').at(-1) }).toEqual({
      status: 78,
      line: expect.stringMatching(/FM_HOME home is relative and the current directory no longer exists/),
    });
  });

  test.skipIf(!isRoot)('lies on a full disk', async ({ sandbox }) => {
    mkdirSync(sandbox.home, 0o700);
    const space = await MountSpace.open(sandbox, 'mount -t tmpfs -o size=64k,mode=700 tmpfs home');
    const fill = () => space.run('sh', ['-c', 'cat /dev/zero > home/fill; true']);
    try {
      await fill();
      expectLine(await space.run('task-spawn', ['x', '--', 'true']), 125, 'ENOSPC', `${sandbox.home} has 0 KiB`);
      expect(readdirSync(sandbox.base)).toEqual([]);
      rmSync(space.at(join(sandbox.home, 'fill')));
      expect(await space.run('task-spawn', ['x', '--', 'true'])).toMatchObject({ status: 0 });
      const before = readdirSync(sandbox.base);
      await fill();
      expectLine(await space.run('task-spawn', ['y', '--', 'true']), 125, 'y.meta', 'ENOSPC', 'KiB and ');
      expectLine(await space.run('task-spawn', ['--set', 'a=b', 'x']), 125, 'x.meta', 'ENOSPC');
      expect(readdirSync(sandbox.base)).toEqual(before);
      expect(readdirSync(space.at(sandbox.state(''))).sort()).toEqual(['home-id', 'x.lock', 'x.meta']);
      // Teardown needs no space.
      expect(await space.run('task-teardown', ['x'])).toMatchObject({ status: 0 });
      expect(readdirSync(sandbox.base)).toEqual([]);
      expect(readdirSync(space.at(sandbox.state('')))).toEqual(['home-id']);
    } finally {
      await space.close();
    }
  });

  test.skipIf(!isRoot)('lies on a disk without inodes', async ({ sandbox }) => {
    mkdirSync(sandbox.home, 0o700);
    const space = await MountSpace.open(sandbox, 'mount -t tmpfs -o size=64k,mode=700,nr_inodes=5 tmpfs home');
    try {
      expect(await space.run('task-spawn', ['x', '--', 'true'])).toMatchObject({
        status: 125,
        stderr: expect.stringContaining('ENOSPC'),
      });
      expect(readdirSync(sandbox.base)).toEqual([]);
      await space.run('sh', ['-c', 'for i in 1 2 3 4 5; do : > home/$i; done; true']);
      expectLine(
        await space.run('task-spawn', ['x', '--', 'true']),
        125,
        'cannot open the lock',
        'ENOSPC',
        '0 inodes free',
      );
    } finally {
      await space.close();
    }
  });
});

test.skipIf(!isRoot)("run by sudo where there is no home, teardown names the caller's", async ({ sandbox }) => {
  const uid = execFileSync('sh', ['-c', "awk -F: '$3 > 0 {print $3, $6; exit}' /etc/passwd"], { encoding: 'latin1' });
  const [number, folder] = uid.trim().split(' ') as [string, string];
  const env = { SUDO_UID: number };
  expectLine(await sandbox.teardown(['x'], { env }), 0, `${folder}/.local/state/task-spawn: run as that user`);
  expectLine(await sandbox.teardown(['x'], { env: { SUDO_UID: '987654' } }), 0, 'another one (uid 987654)');
  for (const SUDO_UID of ['0', ''])
    expect((await sandbox.teardown(['x'], { env: { SUDO_UID } })).stderr).not.toContain('sudo');
});

function mkdirOpen(path: string, mode: number): void {
  mkdirSync(path);
  chmodSync(path, mode);
}

describe('a base that cannot be used', () => {
  const cases: Record<string, { text: string; make?: (base: string) => unknown; base?: string }> = {
    'is missing': { text: 'does not exist', base: 'missing' },
    'lies below a file': {
      text: 'does not exist',
      base: 'file/base',
      make: (base) => writeFileSync(dirname(base), ''),
    },
    'is a file': { text: 'is not a directory', base: 'file', make: (base) => writeFileSync(base, '') },
    'is a dangling link': { text: 'does not exist', base: 'link', make: (base) => symlinkSync('nowhere', base) },
    'is a loop': { text: 'ELOOP', base: 'loop', make: (base) => symlinkSync('loop', base) },
    'can be written by others without sticky': { text: 'not sticky', make: (base) => mkdirOpen(base, 0o777) },
    'can be written by a group without sticky': { text: 'not sticky', make: (base) => mkdirOpen(base, 0o770) },
    'has such an ancestor': {
      text: 'its ancestor',
      base: 'open/base',
      make: (base) => {
        mkdirOpen(dirname(base), 0o777);
        mkdirSync(base);
      },
    },
  };
  for (const [title, { text, make, base = 'base' }] of Object.entries(cases)) {
    test(title, async ({ sandbox }) => {
      // Its own folder, so that it is the base that is refused and not the home.
      const path = join(sandbox.base, base);
      make?.(path);
      await expectRefused(sandbox, ['--base', path], {}, text);
      expect(await sandbox.record('x')).toBeUndefined();
    });
  }

  test('is sticky and open to all: fine, and never changed', async ({ sandbox }) => {
    chmodSync(sandbox.base, 0o1777);
    await sandbox.finished('x');
    expect(modeOf(sandbox.base)).toBe('1777');
    expect(await sandbox.teardown(['x'])).toMatchObject({ status: 0 });
    expect(modeOf(sandbox.base)).toBe('1777');
  });

  test.skipIf(!isRoot)('belongs to another user, or cannot be written', async ({ sandbox }) => {
    await sandbox.finished('probe');
    await sandbox.teardown(['probe']);
    chownSync(sandbox.base, NOBODY, NOBODY);
    await expectRefused(sandbox, [], {}, sandbox.base, `belongs to uid ${NOBODY}`);
    chownSync(sandbox.base, 0, 0);
    const home = join(sandbox.path, 'theirs');
    mkdirSync(home, 0o700);
    chownSync(home, NOBODY, NOBODY);
    const options = { uid: NOBODY, env: { FM_HOME: home } };
    expectLine(await sandbox.spawn(['x', '--', 'true'], options), 125, sandbox.base, 'EACCES');
    expect(readdirSync(join(home, 'state'))).toEqual(['home-id']);
  });
});

describe('a link that resolves to a path which cannot be written down', () => {
  test('is refused by name as base and as home, before anything is made', async ({ sandbox }) => {
    const odd = join(sandbox.path, 'a\nb');
    await mkdir(odd);
    const link = join(sandbox.path, 'link');
    await symlink(odd, link);
    for (const args of [
      ['--base', link],
      ['--home', link],
      ['--home', join(link, 'new')],
    ]) {
      const { status, stderr } = await sandbox.spawn([...args, 'a', '--', 'true']);
      expect([status, stderr]).toEqual([125, expect.stringContaining('resolves to')]);
      expect(stderr.split('\n')).toHaveLength(1);
    }
    expect(await readdir(odd)).toEqual([]);
    expect(await readdir(sandbox.base)).toEqual([]);
  });
});
