/** Narrow pins, the room for sockets, nested tasks, and the hold on a live root. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, readdir, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { isRoot, type Sandbox, test } from '../helpers/sandbox.ts';
import { until } from '../helpers/until.ts';

async function setConfig(sandbox: Sandbox, name: string, text: string): Promise<void> {
  await mkdir(join(sandbox.home, 'config'), { recursive: true, mode: 0o700 });
  await writeFile(join(sandbox.home, 'config', name), text);
}

describe('config/tmpdir-vars', () => {
  test('sets each named variable to the root and leaves TMPDIR alone', async ({ sandbox }) => {
    await setConfig(sandbox, 'tmpdir-vars', '# for one program\nCLAUDE_CODE_TMPDIR\n\n  OTHER_TMP \n');
    const { stdout } = await sandbox.spawn([
      'a',
      '--',
      'sh',
      '-c',
      'echo "$CLAUDE_CODE_TMPDIR|$OTHER_TMP|${TMPDIR-none}"',
    ]);
    const root = (await sandbox.record('a'))?.tasktmp;
    expect(stdout).toBe(`${root}|${root}|none`);
  });

  test('overrides what the caller had, byte for byte, also in --env', async ({ sandbox }) => {
    await setConfig(sandbox, 'tmpdir-vars', 'MY_TMP\n');
    const { stdout } = await sandbox.spawn(['a', '--', 'printenv', 'MY_TMP'], { env: { MY_TMP: '/elsewhere' } });
    expect(stdout).toBe((await sandbox.record('a'))?.tasktmp);
    const exports = await sandbox.spawn(['--env', 'b']);
    expect(exports.stdout).toContain(`export MY_TMP='${(await sandbox.record('b'))?.tasktmp}'`);
  });

  test.for(['9X', 'A B', 'FM_HOME', 'PATH', 'A=B', 'GOTMPDIR', 'é'])(
    'refuses the line %s by name, before anything is made',
    async (name, { sandbox }) => {
      await setConfig(sandbox, 'tmpdir-vars', `GOOD\n${name}\n`);
      const { status, stderr } = await sandbox.spawn(['a', '--', 'true']);
      expect(status).toBe(125);
      expect(stderr).toContain(JSON.stringify(name));
      expect(await readdir(sandbox.base)).toEqual([]);
    },
  );
});

describe('room for Unix sockets under a pin (cases B11 to B15)', () => {
  /** An id that makes the root so many bytes long. */
  const idFor = (sandbox: Sandbox, bytes: number) => 'x'.repeat(bytes - sandbox.base.length - '/fm-12345678-'.length);

  test('61 bytes leave room and a socket with a name of 45 bytes works; 62 are refused', async ({ sandbox }) => {
    const fits = idFor(sandbox, 61);
    expect((await sandbox.spawn(['--pin', fits, '--', 'true'])).status).toBe(0);
    const root = (await sandbox.record(fits))?.tasktmp as string;
    expect(root).toHaveLength(61);
    const server = createServer();
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(join(root, 's'.repeat(45)), resolve);
    });
    server.close();

    const long = idFor(sandbox, 62);
    const { status, stderr } = await sandbox.spawn(['--pin', long, '--', 'true']);
    expect([status, stderr]).toEqual([125, expect.stringContaining('leaves 44 bytes for the name of a Unix socket')]);
    expect(await sandbox.record(long)).toBeUndefined();
    expect((await sandbox.spawn(['--no-pin', long, '--', 'true'])).status).toBe(0);
  });

  test('a narrow pin asks for the same room, and a relaunch too', async ({ sandbox }) => {
    const long = idFor(sandbox, 62);
    expect((await sandbox.spawn([long, '--', 'true'])).status).toBe(0);
    await setConfig(sandbox, 'tmpdir-vars', 'MY_TMP\n');
    const before = await sandbox.record(long);
    expect((await sandbox.spawn([long, '--', 'true'])).status).toBe(125);
    expect(await sandbox.record(long)).toEqual(before);
  });
});

describe('a task inside a task', () => {
  test('names its outer one, and their roots lie side by side in the base', async ({ sandbox }) => {
    const inner = 'task-spawn --pin b -- sh -c \'echo "$FM_TASK_PARENT $TMPDIR"\'';
    const { stdout } = await sandbox.spawn(['--pin', 'a', '--', 'sh', '-c', inner]);
    const [a, b] = [await sandbox.record('a'), await sandbox.record('b')];
    expect(stdout).toBe(`${a?.token} ${b?.tasktmp}`);
    expect((await readdir(sandbox.base)).sort()).toEqual(
      [a, b].map((record) => record?.tasktmp?.split('/').pop()).sort(),
    );
  });

  test('FM_TASK_PARENT of further out is not passed on where no task is around', async ({ sandbox }) => {
    const { stdout } = await sandbox.spawn(['a', '--', 'sh', '-c', 'echo "${FM_TASK_PARENT-none}"'], {
      env: { FM_TASK_PARENT: 'f'.repeat(32) },
    });
    expect(stdout).toBe('none');
  });

  test('while it runs, the teardown of the outer one is 75 and names it', async ({ sandbox }) => {
    await sandbox.spawn(['a', '--', 'sh', '-c', 'setsid task-spawn b -- sleep 600 >/dev/null 2>&1 &']);
    const pid = await until(
      'b runs',
      async () => (await sandbox.record('b'))?.state === 'active' && (await sandbox.record('b'))?.pid,
    );
    await until('b is sleep', () => readFileSync(`/proc/${pid}/comm`, 'utf8') === 'sleep\n');
    const kept = await sandbox.teardown(['a']);
    expect([kept.status, kept.stderr]).toEqual([
      75,
      expect.stringMatching(`started inside it runs: .*${pid} \\(sleep\\)`),
    ]);
    expect((await sandbox.spawn(['a', '--', 'true'])).status).toBe(125);
    expect((await sandbox.teardown(['--stop', 'b'])).status).toBe(0);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
  });
});

const hasTmpfiles = existsSync('/usr/bin/systemd-tmpfiles') || existsSync('/bin/systemd-tmpfiles');

describe('the root hold', () => {
  test('is one more descriptor, and a shared lock on the root', async ({ sandbox }) => {
    const script =
      'for fd in /proc/self/fd/*; do test "$fd" -ef "$FM_TASK_TMP" && basename "$fd"; done; flock -x -n "$FM_TASK_TMP" true; echo $?';
    const held = await sandbox.spawn(['a', '--', 'bash', '-c', script]);
    expect(held.stdout).toBe('9\n1');
    const free = await sandbox.spawn(['--no-hold', 'b', '--', 'bash', '-c', script]);
    expect(free.stdout).toBe('0');
  });

  test('takes the highest free descriptor and never one of the caller', async ({ sandbox }) => {
    const script =
      'exec 9</dev/zero 8</dev/zero; task-spawn a -- readlink /proc/self/fd/9 /proc/self/fd/8 /proc/self/fd/7';
    const { stdout } = await sandbox.run('bash', ['-c', script]);
    expect(stdout).toBe(`/dev/zero\n/dev/zero\n${(await sandbox.record('a'))?.tasktmp}`);
    const all =
      'for fd in 3 4 5 6 7 8 9; do eval "exec $fd</dev/zero"; done; task-spawn b -- readlink /proc/self/fd/{3..9}';
    expect((await sandbox.run('bash', ['-c', all])).stdout).toBe(Array(7).fill('/dev/zero').join('\n'));
  });

  test('ends with the last process that has it', async ({ sandbox }) => {
    const root = await sandbox.finished('a', 'setsid sleep 600 >/dev/null 2>&1 & echo $! > "$FM_TASK_TMP/pid"');
    const lockable = async () => (await sandbox.run('flock', ['-x', '-n', root, 'true'])).status === 0;
    expect(await lockable()).toBe(false);
    process.kill(Number(readFileSync(join(root, 'pid'), 'utf8')), 'SIGKILL');
    await until('the lock is free', lockable);
  });

  test.skipIf(!isRoot || !hasTmpfiles)(
    'a live root and its files are left alone by systemd-tmpfiles',
    async ({ sandbox }) => {
      const run = sandbox.start('task-spawn', ['a', '--', 'sh', '-c', 'echo x > "$FM_TASK_TMP/file"; exec sleep 600']);
      const stray = join(sandbox.base, 'stray');
      await mkdir(stray);
      await writeFile(join(stray, 'file'), 'x');
      const root = await until('it runs', async () => {
        const record = await sandbox.record('a');
        return record && existsSync(`${record.tasktmp}/file`) ? record.tasktmp : undefined;
      });
      const conf = join(sandbox.path, 'clean.conf');
      await writeFile(conf, `d ${sandbox.base} 0755 root root 1s\n`);
      const hourAgo = new Date(Date.now() - 3_600_000);
      for (const path of [join(root, 'file'), join(root, 'gotmp'), root, join(stray, 'file'), stray])
        await utimes(path, hourAgo, hourAgo);
      // The change times are now: cleaned is what is older than a second, so the stray says when that is so.
      await until('the stray is cleaned', async () => {
        await execa('systemd-tmpfiles', ['--clean', conf]);
        return !existsSync(stray);
      });
      await execa('systemd-tmpfiles', ['--clean', conf]);
      expect((await readdir(root)).sort()).toEqual(['file', 'gotmp']);
      run.kill('SIGKILL');
      await run;
    },
  );
});
