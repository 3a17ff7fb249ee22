/** What is spared although something ties it to the task, and named with the way out: B10, B12, B14, cases B86, B87. */
import { existsSync, lstatSync, readFileSync } from 'node:fs';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { isRoot, NOBODY, test } from '../helpers/sandbox.ts';
import { isAlive, startTask } from '../helpers/tasks.ts';
import { Terminal } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';
import { awaitSleep, nameOf, ownSleep, QUIET, sleepers, teardownJson } from '../helpers/zoo.ts';

describe('shared servers', () => {
  test('B12 a tmux that the task started: it, its panes and what others opened in it live', async ({ sandbox }) => {
    const socket = join(sandbox.path, 'tmux');
    const [pane, other, leak, young] = [ownSleep(), ownSleep(), ownSleep(), ownSleep()];
    const tmux = (...args: string[]) => sandbox.run('tmux', ['-S', socket, '-f', '/dev/null', ...args]);
    try {
      const root = await sandbox.finished(
        'a',
        `setsid ${leak.line} ${QUIET} &
        sleep 0.05
        SHELL=/bin/sh tmux -S ${socket} -f /dev/null new-session -d '${pane.line}'
        sleep 0.05
        setsid ${young.line} 9>&- ${QUIET} &`,
      );
      await tmux('new-window', '-d', other.line);
      const living = [await awaitSleep(pane), await awaitSleep(other), await awaitSleep(young)];
      const server = Number((await tmux('display-message', '-p', '#{pid}')).stdout);
      await awaitSleep(leak);
      expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'detached' }]);
      const { status, processes, stderr } = await teardownJson(sandbox, ['a']);
      expect({ status, stderr }).toMatchObject({ status: 0 });
      expect([server, ...living].map(isAlive)).toEqual([true, true, true, true]);
      expect(sleepers(leak)).toEqual([]);
      expect(existsSync(root)).toBe(false);
      const said = (pid: number) => processes.find((each) => each.pid === pid);
      expect(said(server)).toMatchObject({ action: 'spared', reason: 'a shared server (tmux)' });
      expect(said(living[2] as number)).toMatchObject({ action: 'spared', evidence: ['token'] });
      expect(stderr).toContain(`spared ${server} (tmux: server; token`);
    } finally {
      await tmux('kill-server');
      for (const each of [leak, young]) for (const pid of sleepers(each)) process.kill(pid, 'SIGKILL');
    }
  });

  test('a tmux alone does not make the task a detached one: it may be launched again', async ({ sandbox }) => {
    const socket = join(sandbox.path, 'tmux');
    try {
      await sandbox.finished('a', `SHELL=/bin/sh tmux -S ${socket} -f /dev/null new-session -d 'sleep 600'`);
      expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'finished' }]);
      expect((await sandbox.spawn(['a', '--', 'true'])).status).toBe(0);
    } finally {
      await sandbox.run('tmux', ['-S', socket, 'kill-server']);
    }
  });

  test('config/reap-spare adds names; one that cannot be read ends nothing', async ({ sandbox }) => {
    const [mine, leak] = [ownSleep(), ownSleep()];
    const root = await sandbox.finished(
      'a',
      `setsid bash -c 'exec -a /opt/my-server ${mine.line}' ${QUIET} & setsid ${leak.line} ${QUIET} &`,
    );
    const spared = await awaitSleep(mine);
    const ended = await awaitSleep(leak);
    const config = join(sandbox.home, 'config/reap-spare');
    await mkdir(config, { recursive: true });
    const refused = await sandbox.teardown(['a']);
    expect(refused).toMatchObject({
      status: 78,
      stderr: expect.stringMatching(/reap-spare cannot be read, so nothing/),
    });
    expect([isAlive(spared), isAlive(ended), existsSync(root)]).toEqual([true, true, true]);
    await sandbox.run('rmdir', [config]);
    await writeFile(config, '# mine\n\n  my-server \n');
    try {
      expect((await sandbox.teardown(['a'])).status).toBe(0);
      expect([isAlive(spared), isAlive(ended)]).toEqual([true, false]);
    } finally {
      process.kill(spared, 'SIGKILL');
    }
  });
});

describe('terminals', () => {
  test("the task's own terminal: ended; another one: spared, and named", async ({ sandbox }) => {
    const [own, other] = [ownSleep(), ownSleep()];
    const terminal = new Terminal(sandbox);
    try {
      await terminal.shows(/ready> /);
      terminal.enter(`task-spawn a -- bash -c '(${own.line} ${QUIET} &); sleep 0.1'`);
      await terminal.shows(/ready> /);
      // In a terminal of its own, with the token of the task.
      const token = (await sandbox.record('a'))?.token;
      const words = `["env", "FM_TASK_TOKEN=${token}", "sleep", "${other.length}"]`;
      terminal.enter(`(setsid python3 -c 'import pty; pty.spawn(${words})' ${QUIET} &)`);
      await terminal.shows(/ready> /);
      const pids = [await awaitSleep(own), await awaitSleep(other)];
      const { status, processes } = await teardownJson(sandbox, ['a']);
      expect(status).toBe(0);
      expect(isAlive(pids[0] as number)).toBe(false);
      const said = (pid: number) => processes.find((each) => each.pid === pid);
      expect(said(pids[0] as number)).toMatchObject({ action: 'ended' });
      expect(said(pids[1] as number)).toMatchObject({ action: 'spared', reason: expect.stringContaining('terminal') });
    } finally {
      for (const pid of sleepers(other)) process.kill(pid, 'SIGKILL');
      await terminal.close();
    }
  });

  test("jobs and editors of the user's interactive shell, in the same terminal and in the root, live", async ({
    sandbox,
  }) => {
    const [job, leak] = [ownSleep(), ownSleep()];
    const terminal = new Terminal(sandbox);
    try {
      await terminal.shows(/ready> /);
      terminal.enter(`task-spawn a -- sh -c '${leak.line} ${QUIET} & sleep 0.1'`);
      await terminal.shows(/ready> /);
      const root = (await sandbox.record('a'))?.tasktmp as string;
      terminal.enter(`cd ${root}`);
      terminal.enter(`${job.line} &`);
      const pid = await awaitSleep(job);
      await awaitSleep(leak);
      terminal.enter('task-teardown a 2>&1; echo "gave $?"');
      const said = await terminal.shows(/gave 0/);
      expect(isAlive(pid)).toBe(true);
      expect(sleepers(leak)).toEqual([]);
      expect(said).toMatch(/spared \d+ \(bash; cwd\): this command runs in it/);
      expect(existsSync(root)).toBe(false);
    } finally {
      for (const pid of sleepers(job)) process.kill(pid, 'SIGKILL');
      await terminal.close();
    }
  });
});

describe('who asks', () => {
  test('B10 the shell that calls, standing in the root, lives and is named', async ({ sandbox }) => {
    const root = await sandbox.finished('a');
    const { stdout, stderr, status } = await sandbox.run('bash', ['-c', `cd ${root}; task-teardown a; echo "gave $?"`]);
    expect([status, stdout]).toEqual([0, 'gave 0']);
    expect(stderr).toMatch(/spared \d+ \(bash; cwd\): this command runs in it/);
    expect(existsSync(root)).toBe(false);
  });

  test('the pipeline of the teardown in a shell of the task, and what it runs in, live; its jobs are ended', async ({
    sandbox,
  }) => {
    const job = ownSleep();
    const { stdout, status } = await sandbox.run('bash', [
      '-c',
      `eval "$(task-spawn --env --pid $$ a)"
      setsid ${job.line} ${QUIET} &
      until grep -qa ${job.length} /proc/$!/cmdline; do :; done
      bash -c 'task-teardown a 2>&1; echo "gave $?"' | tee "$FM_HOME/log" | cat; echo "tee gave \${PIPESTATUS[1]}"`,
    ]);
    expect(status).toBe(0);
    expect(stdout).toMatch(/gave 0\ntee gave 0$/);
    expect(stdout).toMatch(/spared \d+ \(tee; token[^)]*\): it is in the pipeline/);
    expect(sleepers(job)).toEqual([]);
    expect(readFileSync(join(sandbox.home, 'log'), 'utf8')).toContain('gave 0');
  });

  test("a held task's jobs are ended from outside; its shell is not touched", async ({ sandbox }) => {
    const job = ownSleep();
    const shell = sandbox.start(
      'bash',
      ['-c', `eval "$(task-spawn --env a)"; setsid ${job.line} ${QUIET} & read -r line; echo "$line"`],
      { stdin: 'pipe' },
    );
    const pid = await awaitSleep(job);
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'a', state: 'detached' }]);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    expect(isAlive(pid)).toBe(false);
    shell.stdin?.end('alive\n');
    expect((await shell).stdout).toBe('alive');
  });
});

describe('visitors', () => {
  test('--reap-visitors ends those that started after the task, without a terminal, and of no task', async ({
    sandbox,
  }) => {
    const [old, late, task] = [ownSleep(), ownSleep(), ownSleep()];
    // Its folder is to be the root, once that is made.
    const early = sandbox.start('bash', [
      '-c',
      `until cd ${sandbox.base}/fm-*-a; do sleep 0.01; done 2>/dev/null; exec ${old.line}`,
    ]);
    const root = await sandbox.finished('a');
    const oldPid = await awaitSleep(old);
    await startTask(sandbox, 'b', ['sh', '-c', `cd ${root}; exec ${task.line}`]);
    const visitor = sandbox.start('sh', ['-c', `cd ${root}; exec ${late.line}`]);
    const [latePid, taskPid] = [await awaitSleep(late), await awaitSleep(task)];
    const plan = await teardownJson(sandbox, ['--dry-run', '--reap-visitors', 'a']);
    expect(plan.processes.filter(({ action }) => action === 'would end').map(({ pid }) => pid)).toEqual([latePid]);
    const { status, processes } = await teardownJson(sandbox, ['--reap-visitors', 'a']);
    expect(status).toBe(0);
    expect([oldPid, latePid, taskPid].map(isAlive)).toEqual([true, false, true]);
    expect(processes.find(({ pid }) => pid === latePid)).toMatchObject({ action: 'ended', evidence: ['cwd'] });
    expect(processes.find(({ pid }) => pid === oldPid)).toMatchObject({ action: 'spared' });
    early.kill('SIGKILL');
    await Promise.all([early, visitor]);
  });

  test('B14 a record whose tasktmp names a home directory: nobody there is touched or named', async ({ sandbox }) => {
    const [there, holder, leak] = [ownSleep(), ownSleep(), ownSleep()];
    const folder = join(sandbox.path, 'somebody');
    await mkdir(folder);
    await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
    const { dev, ino, birthtimeNs } = lstatSync(folder, { bigint: true });
    // Everything that somebody could forge.
    const forged = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
    await sandbox.edit('a', { tasktmp: folder, ...forged });
    const one = sandbox.start('sh', ['-c', `cd ${folder}; exec ${there.line}`]);
    const two = sandbox.start('sh', ['-c', `exec 9<${folder}; flock -s 9; exec ${holder.line}`]);
    const pids = [await awaitSleep(there), await awaitSleep(holder)];
    await awaitSleep(leak);
    for (const args of [[], ['--reap-visitors'], ['--strict', '--reap-visitors']]) {
      const { processes, task } = await teardownJson(sandbox, [...args, 'a']);
      expect(task.outcome).toBe('leftover');
      expect(pids.map(isAlive)).toEqual([true, true]);
      expect(processes.map(({ pid }) => pid).filter((pid) => pids.includes(pid))).toEqual([]);
    }
    expect(sleepers(leak)).toEqual([]);
    expect(existsSync(folder)).toBe(true);
    for (const each of [one, two]) each.kill('SIGKILL');
    await Promise.all([one, two]);
  });
});

describe('a process table that resists', () => {
  test('thousands of threads and descriptors, and a process that comes and goes', async ({ sandbox }) => {
    const leak = ownSleep();
    const root = await sandbox.finished(
      'a',
      `setsid python3 -c 'import os, resource, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
for _ in range(4000): os.open("/dev/null", os.O_RDONLY)
for _ in range(1000): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
os.system("${leak.line}")' ${QUIET} &`,
    );
    await awaitSleep(leak);
    const flicker = sandbox.start('bash', ['-c', 'while :; do /bin/true; done']);
    const { status } = await teardownJson(sandbox, ['a']);
    flicker.kill('SIGKILL');
    await flicker;
    expect(status).toBe(0);
    expect(sleepers(leak)).toEqual([]);
    expect(existsSync(root)).toBe(false);
  });

  test.skipIf(!isRoot)(
    'one that cannot be read is counted and left; hidepid=2 hides no own ones',
    async ({ sandbox }) => {
      await sandbox.giveTo(NOBODY);
      await chmod(sandbox.path, 0o755);
      const [hidden, leak] = [ownSleep(), ownSleep()];
      const uid = { uid: NOBODY };
      const made = await sandbox.spawn(
        [
          '--no-hold',
          'a',
          '--',
          'sh',
          '-c',
          `setsid python3 -c 'import ctypes, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
time.sleep(1000)' ${hidden.length} ${QUIET} &
        setsid ${leak.line} ${QUIET} & sleep 0.3`,
        ],
        uid,
      );
      expect(made.status).toBe(0);
      const pid = await until('it runs', () => sleepers(hidden).find((each) => /^python/.test(nameOf(each))));
      await awaitSleep(leak);
      try {
        const plan = await teardownJson(sandbox, ['--dry-run', 'a'], uid);
        expect(plan.unreadable).toBeGreaterThan(0);
        expect(plan.processes.map((each) => each.pid)).not.toContain(pid);
        const become = `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups`;
        const script = `mount -t proc proc /proc && mount -o remount,hidepid=2 /proc && exec ${become} task-teardown a`;
        const { stderr, status } = await sandbox.run('unshare', ['-m', 'sh', '-c', script]);
        expect({ status, stderr }).toMatchObject({ status: 0, stderr: expect.stringContaining('ended') });
        expect(isAlive(pid)).toBe(true);
        expect(sleepers(leak)).toEqual([]);
      } finally {
        process.kill(pid, 'SIGKILL');
      }
    },
  );
});
