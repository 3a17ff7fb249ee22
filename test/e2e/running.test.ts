/** Is it running, and ending it: design section 9, acceptance B02, B08, cases B88, B89; --stop, --wait, --forget, --dry-run, --json. */
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, readdir, readFile, rm, stat, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { readMachine } from '../../lib/machine.ts';
import { isRoot, processesWith, type Sandbox, test } from '../helpers/sandbox.ts';
import { describeTree, isAlive, startPython, startTask, stateOf } from '../helpers/tasks.ts';
import { until } from '../helpers/until.ts';

const FOREVER = ['sleep', '1000'];

/** Refused with 75 and nothing changed; gives what was said. */
async function expectKept(sandbox: Sandbox, id: string, args: readonly string[] = []): Promise<string> {
  const before = [describeTree(sandbox.state(`${id}.meta`)), describeTree(sandbox.base)];
  const { status, stderr } = await sandbox.teardown([...args, id]);
  expect({ status, stderr }).toMatchObject({ status: 75 });
  expect([describeTree(sandbox.state(`${id}.meta`)), describeTree(sandbox.base)]).toEqual(before);
  return stderr;
}

async function expectRemoved(sandbox: Sandbox, id: string, args: readonly string[] = []): Promise<void> {
  const { status, stderr } = await sandbox.teardown([...args, id]);
  expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('removed') });
  expect(await sandbox.record(id)).toBeUndefined();
  expect(await readdir(sandbox.base)).toEqual([]);
}

describe('a task that runs', () => {
  test('is kept, and its pid named', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a', FOREVER);
    expect(await expectKept(sandbox, 'a')).toContain(`running as pid ${pid}: `.replace(': ', ''));
    expect(isAlive(pid)).toBe(true);
  });

  test('is running while it is stopped', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a', FOREVER);
    process.kill(pid, 'SIGSTOP');
    await until('it is stopped', () => stateOf(pid) === 'T');
    expect(await expectKept(sandbox, 'a')).toContain(`running as pid ${pid}`);
  });

  test('is running while threads of it run on after its first one ended', async ({ sandbox }) => {
    const { pid } = await startPython(
      sandbox,
      'a',
      `import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
READY
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)`,
    );
    await until('its first thread ended', () => stateOf(pid) === 'Z');
    expect(await expectKept(sandbox, 'a')).toContain(`running as pid ${pid}`);
    await expectRemoved(sandbox, 'a', ['--stop']);
  });

  test('is dead as a zombie that nobody reaps', async ({ sandbox }) => {
    const parent = sandbox.start('python3', [
      '-c',
      'import subprocess, time\np = subprocess.Popen(["task-spawn", "a", "--", "true"])\ntime.sleep(1000)',
    ]);
    const pid = await until('it is a zombie', async () => {
      const record = await sandbox.record('a');
      return record?.state === 'active' && stateOf(Number(record.pid)) === 'Z' ? Number(record.pid) : undefined;
    });
    await expectRemoved(sandbox, 'a');
    expect(stateOf(pid)).toBe('Z');
    parent.kill('SIGKILL');
  });
});

describe('--stop', () => {
  test('TERM is heard: the command ends in its own way, then everything goes', async ({ sandbox }) => {
    const bye = join(sandbox.path, 'bye');
    await startPython(
      sandbox,
      'a',
      `import signal, sys
def end(*_):
  open(${JSON.stringify(bye)}, "w").write("bye")
  sys.exit(0)
signal.signal(signal.SIGTERM, end)
READY
while True: signal.pause()`,
    );
    await expectRemoved(sandbox, 'a', ['--stop']);
    expect(await readFile(bye, 'utf8')).toBe('bye');
  });

  test('TERM is ignored: KILL after the grace period', async ({ sandbox }) => {
    const task = await startPython(
      sandbox,
      'a',
      'import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nREADY\nwhile True: signal.pause()',
    );
    await expectRemoved(sandbox, 'a', ['--stop', '--grace-period', '0.2']);
    expect((await task.process).signal).toBe('SIGKILL');
  });

  test('a stopped command hears TERM', async ({ sandbox }) => {
    const task = await startTask(sandbox, 'a', FOREVER);
    process.kill(task.pid, 'SIGSTOP');
    await until('it is stopped', () => stateOf(task.pid) === 'T');
    await expectRemoved(sandbox, 'a', ['--stop', '--grace-period', '60']);
    expect((await task.process).signal).toBe('SIGTERM');
  });

  test('from inside the task it is refused, and the task lives', async ({ sandbox }) => {
    const out = join(sandbox.path, 'out');
    await startTask(sandbox, 'a', ['sh', '-c', `task-teardown --stop a 2>${out}; echo $? >>${out}; exec sleep 1000`]);
    const said = await until(
      'it was refused',
      () => existsSync(out) && /^\d+$/m.test(readFileSync(out, 'utf8')) && readFileSync(out, 'utf8'),
    );
    expect(said).toMatch(/what this command runs in.*--wait a/);
    expect(said).toMatch(/\n75\n$/);
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'running' }]);
  });

  test('B02 B89 a reused pid is nobody: the stranger lives, the task is dead', async ({ sandbox }) => {
    const stranger = execa('sleep', ['1000'], { reject: false });
    try {
      for (const args of [['--stop', '--grace-period', '0'], ['--wait'], []]) {
        await sandbox.finished('a');
        await sandbox.edit('a', { pid: String(stranger.pid), pid_start: '1' });
        await expectRemoved(sandbox, 'a', args);
        expect(isAlive(stranger.pid as number)).toBe(true);
      }
    } finally {
      stranger.kill('SIGKILL');
      expect((await stranger).signal).toBe('SIGKILL');
    }
  });

  test('the task was launched again meanwhile: that one is left alone', async ({ sandbox }) => {
    const again = 'f'.repeat(32);
    const { root } = await startPython(
      sandbox,
      'a',
      `import os, re, signal, sys
def end(*_):
  name = ${JSON.stringify(sandbox.state('a.meta'))}
  text = re.sub("spawn_gen=.*", "spawn_gen=${again}", open(name).read())
  open(name + "~", "w").write(text)
  os.rename(name + "~", name)
  sys.exit(0)
signal.signal(signal.SIGTERM, end)
READY
while True: signal.pause()`,
    );
    const { status, stderr } = await sandbox.teardown(['--stop', 'a']);
    expect({ status, stderr }).toMatchObject({ status: 75, stderr: expect.stringContaining('launched again') });
    expect(await sandbox.record('a')).toMatchObject({ spawn_gen: again, state: 'active' });
    expect(existsSync(root)).toBe(true);
    await expectRemoved(sandbox, 'a', ['--stop']);
  });

  test('without a task, and of one that ended, it is an ordinary teardown', async ({ sandbox }) => {
    expect((await sandbox.teardown(['--stop', 'a'])).status).toBe(0);
    await sandbox.finished('a');
    await expectRemoved(sandbox, 'a', ['--stop']);
  });
});

describe('--wait', () => {
  test('waits for the end, however long that takes', async ({ sandbox }) => {
    const { pid, root } = await startTask(sandbox, 'a', FOREVER);
    const waiting = sandbox.start('task-teardown', ['--wait', 'a']);
    await until('it waits', () => switchesOf(waiting.pid as number) > 150 && existsSync(root));
    process.kill(pid, 'SIGKILL');
    expect((await waiting).exitCode).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  test('--timeout bounds it: kept', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a', FOREVER);
    expect(await expectKept(sandbox, 'a', ['--wait', '--timeout', '0.1'])).toContain(`still runs as pid ${pid}`);
    expect(await expectKept(sandbox, 'a', ['--wait', '--timeout', '0'])).toContain('--timeout');
    expect(isAlive(pid)).toBe(true);
  });

  test('a signal ends the wait, and nothing was changed', async ({ sandbox }) => {
    const { root } = await startTask(sandbox, 'a', FOREVER);
    const before = describeTree(sandbox.home);
    const waiting = sandbox.start('task-teardown', ['--wait', 'a']);
    await until('it waits', () => switchesOf(waiting.pid as number) > 150);
    waiting.kill('SIGTERM');
    expect((await waiting).signal).toBe('SIGTERM');
    expect(describeTree(sandbox.home)).toEqual(before);
    expect(existsSync(root)).toBe(true);
  });

  test('from inside an ordinary task, left in the background', async ({ sandbox }) => {
    const root = await sandbox.finished('a', 'task-teardown --wait a >/dev/null 2>&1 &');
    await until('it is gone', () => !existsSync(root));
    await until('its record is gone', async () => (await sandbox.record('a')) === undefined);
  });
});

/** How often a process gave up the processor by itself: one that waits in small steps does so again and again. */
function switchesOf(pid: number): number {
  return Number(/^voluntary_ctxt_switches:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1]);
}

describe('detached: the command ended, processes of the task live (B13)', () => {
  test('named by status, refused by spawn, ended by teardown, with or without options', async ({ sandbox }) => {
    for (const args of [[], ['--stop', '--grace-period', '5'], ['--wait', '--timeout', '0']]) {
      await sandbox.finished('a', 'setsid sleep 1000 >/dev/null 2>&1 &');
      const token = (await sandbox.record('a'))?.token;
      const [pid] = await until('sleep runs', () => {
        const found = processesWith(`FM_TASK_TOKEN=${token}`).filter((each) =>
          /sleep/.test(readFileSync(`/proc/${each}/comm`, 'latin1')),
        );
        return found.length === 1 ? found : undefined;
      });
      const spawn = await sandbox.spawn(['a', '--', 'true']);
      expect(spawn).toMatchObject({ status: 125, stderr: expect.stringContaining(`${pid} (sleep)`) });
      expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'detached', processes: [{ pid }] }]);
      expect(isAlive(pid as number)).toBe(true);
      await expectRemoved(sandbox, 'a', args);
      expect(isAlive(pid as number)).toBe(false);
    }
  });

  test("another task's process, and one that gave its token up, are not its own", async ({ sandbox }) => {
    await sandbox.finished('a', 'env -u FM_TASK_TOKEN setsid sleep 1000 >/dev/null 2>&1 &');
    await startTask(sandbox, 'b', FOREVER);
    const { status } = await sandbox.teardown(['a']);
    expect(status).toBe(0);
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'b', state: 'running' }]);
  });
});

describe('unknown is never dead', () => {
  const here = readMachine();
  const OTHER = '11111111-2222-3333-4444-555555555555';
  const isInitial = here.pid_ns === '4026531836' && /^[0-9a-f]{32} /.test(here.host);
  const [machineId, node] = here.host.split(' ');
  const cases: [string, Record<string, string>][] = [
    ['another pid namespace', { pid_ns: '1' }],
    ['another host of the same boot id', { host: `${machineId} other` }],
    ['another boot, another node name', { boot_id: OTHER, host: `${machineId} other` }],
    ['another boot, another machine', { boot_id: OTHER, host: `${'0'.repeat(32)} ${node}` }],
    ['another boot, in a container', { boot_id: OTHER, pid_ns: '4026532000' }],
    ['no boot id', { boot_id: '-' }],
  ];
  for (const [title, changes] of cases) {
    test(`${title}: 75, kept, in every state`, async ({ sandbox }) => {
      const root = await sandbox.finished('a');
      for (const state of ['active', 'held', 'creating', 'removing', 'leftover']) {
        await sandbox.edit('a', { state, ...changes });
        expect(await expectKept(sandbox, 'a')).toMatch(/another machine, container or pid namespace/);
      }
      await sandbox.edit('a', { state: 'active' });
      await expectKept(sandbox, 'a', ['--stop']);
      await expectKept(sandbox, 'a', ['--wait', '--timeout', '0']);
      expect((await sandbox.spawn(['a', '--', 'true'])).status).toBe(125);
      expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'unknown' }]);
      expect(existsSync(root)).toBe(true);
    });
  }

  test.skipIf(!isInitial)(
    'another boot of this machine, both in the first pid namespace: dead',
    async ({ sandbox }) => {
      const stranger = execa('sleep', ['1000'], { reject: false });
      const { pid } = stranger;
      try {
        await sandbox.finished('a');
        const start = readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ')[1]?.split(' ')[19] as string;
        await sandbox.edit('a', { boot_id: OTHER, pid: String(pid), pid_start: start });
        expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'finished' }]);
        await expectRemoved(sandbox, 'a', ['--stop']);
        expect(isAlive(pid as number)).toBe(true);
      } finally {
        stranger.kill('SIGKILL');
        await stranger;
      }
    },
  );

  test.skipIf(!isRoot)(
    'a pid namespace of its own: its tasks are its own, those outside are not',
    async ({ sandbox }) => {
      await sandbox.finished('outside');
      const script = `task-spawn inside -- true; task-teardown inside; echo $?; task-teardown outside; echo $?
      task-spawn left -- true`;
      const { stdout } = await sandbox.run('unshare', ['-p', '-f', '--mount-proc', 'sh', '-c', script]);
      expect(stdout.split('\n')).toEqual(['0', '75']);
      expect((await sandbox.teardown(['left'])).status).toBe(75);
      expect((await sandbox.teardown(['outside'])).status).toBe(0);
    },
  );
});

describe('who only worked on a task is never ended', () => {
  test.for(['creating', 'removing'])(
    '--stop of a task that is %s leaves the process on record alone',
    async (state, { sandbox }) => {
      const root = await sandbox.finished('a');
      const worker = sandbox.start('sleep', ['600']);
      const stat = await readFile(`/proc/${worker.pid}/stat`, 'latin1');
      const start = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] as string;
      const unborn = state === 'creating' ? { tmp_dev: '', tmp_ino: '', tmp_btime: '' } : {};
      if (state === 'creating') await rm(root, { recursive: true });
      await sandbox.edit('a', { state, pid: String(worker.pid), pid_start: start, ...unborn });
      expect((await sandbox.teardown(['--stop', '--grace-period', '0', 'a'])).status).toBe(0);
      expect(await readFile(`/proc/${worker.pid}/stat`, 'latin1')).toMatch(/\) [SR]/);
      worker.kill('SIGKILL');
      await worker;
    },
  );
});

describe('--forget drops the record and nothing else', () => {
  test('of an ended task: its root is named, stays, and is listed from then on', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    for (const changes of [
      {},
      { state: 'removing' },
      { state: 'leftover', leftover_reason: 'x' },
      { pid_ns: '1' },
      { state: 'held', pid: '', pid_start: '', tty_nr: '' },
    ]) {
      await sandbox.edit('a', { ...(await sandbox.record('a')), ...changes });
      const saved = await readFile(sandbox.state('a.meta'));
      const before = describeTree(root);
      const { status, stderr } = await sandbox.teardown(['--forget', 'a']);
      expect(status).toBe(0);
      expect(stderr).toContain(root);
      expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
      expect(describeTree(root)).toEqual(before);
      expect(await sandbox.status()).toMatchObject({ tasks: [], unrecorded: [root] });
      await writeFile(sandbox.state('a.meta'), saved, { mode: 0o600 });
    }
  });

  test('not of a task that runs here', async ({ sandbox }) => {
    const { pid } = await startTask(sandbox, 'a', FOREVER);
    expect(await expectKept(sandbox, 'a', ['--forget'])).toContain(`pid ${pid}`);
  });

  test('of none, of the unreadable, of a moved home; not of notes, nor of a directory', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const meta = sandbox.state('a.meta');
    const text = await readFile(meta, 'utf8');
    const forget = async () => {
      const { status, stderr } = await sandbox.teardown(['--forget', 'a']);
      return [status, stderr] as const;
    };
    for (const broken of ['', 'schema=1\n', `${text}id=a\n`, text.replaceAll('\n', '\r\n'), 'x'.repeat(70_000)]) {
      await writeFile(meta, broken);
      expect((await sandbox.teardown(['a'])).status).toBe(65);
      expect(await readFile(meta, 'utf8')).toBe(broken);
      expect(await forget()).toEqual([0, expect.stringContaining(meta)]);
      expect(existsSync(meta)).toBe(false);
    }
    const target = join(sandbox.path, 'target');
    await writeFile(target, text);
    await symlink(target, meta);
    expect((await sandbox.teardown(['a'])).status).toBe(65);
    expect((await forget())[0]).toBe(0);
    expect(await readFile(target, 'utf8')).toBe(text);

    await writeFile(meta, text.replace(/^home=.*/m, 'home=/elsewhere'));
    expect((await sandbox.teardown(['a'])).status).toBe(65);
    expect(await forget()).toEqual([0, expect.stringContaining(root)]);

    await writeFile(meta, 'window=1\n');
    expect((await forget())[0]).toBe(65);
    expect(await readFile(meta, 'utf8')).toBe('window=1\n');

    await rm(meta);
    await mkdir(join(meta, 'sub'), { recursive: true });
    expect((await sandbox.teardown(['a'])).status).toBe(65);
    expect((await forget())[0]).toBe(74);
    expect(await readdir(meta)).toEqual(['sub']);
    await rm(meta, { recursive: true });

    expect(await forget()).toEqual([0, expect.stringContaining('no record')]);
    expect(await readdir(root)).toEqual(['gotmp']);
  });
});

describe('--dry-run and --json', () => {
  test('--dry-run says what would be done, from the same decisions, and changes nothing', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    await sandbox.finished('foreign');
    await sandbox.edit('foreign', { tasktmp: sandbox.path });
    await sandbox.finished('gone');
    await rm((await sandbox.record('gone'))?.tasktmp as string, { recursive: true });
    await writeFile(sandbox.state('broken.meta'), '');
    await startTask(sandbox, 'live', FOREVER);
    await chmod(sandbox.state(''), 0o755);
    const before = [describeTree(sandbox.home), describeTree(sandbox.base)];
    const { status, stderr } = await sandbox.teardown(['--dry-run', 'a', 'foreign', 'gone', 'none', 'broken', 'live']);
    expect([describeTree(sandbox.home), describeTree(sandbox.base)]).toEqual(before);
    expect(status).toBe(65);
    const said = stderr.split('\n');
    expect(said).toEqual([
      `task-teardown: a: would remove ${root} and its record`,
      expect.stringContaining(`foreign: would keep ${sandbox.path}: it is not this task's own`),
      expect.stringMatching(/gone: .* is gone: its record would be dropped/),
      expect.stringContaining('none: nothing of ours'),
      expect.stringContaining('not trusted'),
      expect.stringContaining('running as pid'),
    ]);
    expect((await stat(sandbox.state(''))).mode & 0o777).toBe(0o755);
  });

  test('--json: one object on standard output, the same text on standard error', async ({ sandbox }) => {
    const root = await sandbox.finished('a', ': > "$FM_TASK_TMP/file"');
    await sandbox.finished('foreign');
    await sandbox.edit('foreign', { tasktmp: '/nowhere' });
    const { pid } = await startTask(sandbox, 'live', FOREVER);
    const { status, stdout, stderr } = await sandbox.teardown(['--json', '--strict', 'a', 'foreign', 'live', 'none']);
    expect(status).toBe(77);
    const result = JSON.parse(stdout);
    expect(result).toEqual({
      version: 1,
      status: 77,
      tasks: [
        { id: 'a', outcome: 'removed', status: 0, root, entries: 3, bytes: 0, message: expect.any(String) },
        { id: 'foreign', outcome: 'leftover', status: 77, root: '/nowhere', kept: [], message: expect.any(String) },
        { id: 'live', outcome: 'kept', status: 75, message: expect.stringContaining(`pid ${pid}`) },
        { id: 'none', outcome: 'nothing', status: 0, message: 'no record: nothing to do' },
      ],
      unreadable: expect.any(Number),
    });
    const lines = result.tasks.map(
      ({ id, message }: { id: string; message: string }) => `task-teardown: ${id}: ${message}`,
    );
    expect(stderr.split('\n')).toEqual(lines);
  });

  test('B01 the bytes that were freed are told; those of a file with another name outside are not', async ({
    sandbox,
  }) => {
    await writeFile(join(sandbox.path, 'kept'), 'x'.repeat(100_000));
    await sandbox.finished(
      'a',
      'dd if=/dev/zero of="$FM_TASK_TMP/big" bs=1024 count=300 2>/dev/null; ln kept "$FM_TASK_TMP/link"',
    );
    const { stdout } = await sandbox.teardown(['--json', 'a']);
    const { bytes, entries } = JSON.parse(stdout).tasks[0];
    expect(entries).toBe(4);
    expect(bytes).toBeGreaterThanOrEqual(300 * 1024);
    expect(bytes).toBeLessThan(390 * 1024);
  });
});

describe('exit statuses', () => {
  test('64 for what cannot be meant', async ({ sandbox }) => {
    await sandbox.finished('a');
    for (const args of [
      [],
      ['--bad', 'a'],
      ['../a'],
      ['a', 'b/c'],
      ['--stop', '--wait', 'a'],
      ['--timeout', '1', 'a'],
      ['--wait', '--timeout', 'soon', 'a'],
      ['--lock-wait', '-1', 'a'],
      ['--forget', '--dry-run', 'a'],
      ['--dry-run', '--stop', 'a'],
    ]) {
      const { status, stderr, stdout } = await sandbox.teardown(args);
      expect({ args, status }).toEqual({ args, status: 64 });
      expect(stderr).toMatch(/^task-teardown: .+$/);
      expect(stdout).toBe('');
    }
    expect((await sandbox.record('a'))?.state).toBe('active');
  });

  test('78 for a home that cannot be used, 0 for none, 78 for none that was asked for', async ({ sandbox }) => {
    const none = join(sandbox.path, 'none');
    const env = { FM_HOME: none };
    const nothing = await sandbox.teardown(['a', 'a'], { env });
    expect(nothing).toMatchObject({ status: 0, stderr: expect.stringMatching(/^.*no home at .*nothing to do$/) });
    expect((await sandbox.teardown(['--home', none, 'a'])).status).toBe(78);
    expect(existsSync(none)).toBe(false);
    expect((await sandbox.teardown(['--lock-wait', 'x', 'a'], { env })).status).toBe(64);
    await sandbox.finished('a');
    await chmod(sandbox.home, 0o777);
    expect((await sandbox.teardown(['a'])).status).toBe(78);
    await chmod(sandbox.home, 0o700);
    await writeFile(sandbox.state('home-id'), 'short\n');
    expect((await sandbox.teardown(['a'])).status).toBe(78);
    await rm(sandbox.state('home-id'));
    expect((await sandbox.teardown(['a'])).status).toBe(78);
    expect((await sandbox.record('a'))?.state).toBe('active');
  });

  test.skipIf(!isRoot)("as root of a sudo, the user's home is named", async ({ sandbox }) => {
    const env = { FM_HOME: join(sandbox.path, 'none'), SUDO_UID: '1234' };
    expect((await sandbox.teardown(['a'], { env })).stderr).toContain('uid 1234');
  });

  test('--help and --version', async ({ sandbox }) => {
    for (const command of ['task-teardown', 'task-status']) {
      const help = await sandbox.run(command, ['--help']);
      expect(help).toMatchObject({ status: 0, stderr: '', stdout: expect.stringContaining(`usage: ${command}`) });
      const { version } = JSON.parse(await readFile(join(sandbox.bin, '..', 'package.json'), 'utf8'));
      expect(await sandbox.run(command, ['--version'])).toMatchObject({ status: 0, stdout: version });
    }
  });
});
