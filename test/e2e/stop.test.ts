/** --stop and the order of a teardown: B02, B05, B07, B08, B11, tasks inside tasks, and what a teardown that was killed left. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { readProcess } from '../../lib/processes.ts';
import { isRoot, NOBODY, test } from '../helpers/sandbox.ts';
import { isAlive, startTask, stateOf } from '../helpers/tasks.ts';
import { until } from '../helpers/until.ts';
import { awaitSleep, awaitSleepers, nameOf, ownSleep, QUIET, sleepers, teardownJson } from '../helpers/zoo.ts';

describe('--stop', () => {
  test('ends the command, its descendants and, where it leads one, its session, also those that opted out', async ({
    sandbox,
  }) => {
    const [child, orphan] = [ownSleep(), ownSleep()];
    const script = `env -i ${child.line} 9>&- ${QUIET} & ( env -i ${orphan.line} 9>&- ${QUIET} & ); wait`;
    for (const leads of [true, false]) {
      const task = leads
        ? sandbox.start('setsid', ['-f', 'task-spawn', 'a', '--', 'sh', '-c', script])
        : sandbox.start('task-spawn', ['a', '--', 'sh', '-c', script]);
      const pids = [await awaitSleep(child), await awaitSleep(orphan)];
      const { status, processes } = await teardownJson(sandbox, ['--stop', 'a']);
      expect(status).toBe(0);
      // Once it lost its parent only the session ties the second one to the task.
      expect(pids.map(isAlive)).toEqual([false, !leads]);
      expect(processes.filter(({ evidence }) => evidence.includes('recorded'))).toMatchObject([{ action: 'ended' }]);
      expect(processes.find(({ pid }) => pid === pids[0])?.evidence).toContain('descendant');
      for (const pid of sleepers(orphan)) process.kill(pid, 'SIGKILL');
      await task;
    }
  });

  test('the rest of its pipeline, and the shell that runs it, live', async ({ sandbox }) => {
    const [command, reader] = [ownSleep(), ownSleep()];
    const script = `task-spawn a -- ${command.line} | sh -c 'cat; ${reader.line}; :'; echo "shell lives"`;
    for (const words of [
      ['bash', '-c', script],
      ['setsid', '--wait', 'bash', '-c', script],
    ] as const) {
      const [file, ...args] = words;
      const shell = sandbox.start(file, args);
      await awaitSleep(command);
      expect((await sandbox.teardown(['--stop', 'a'])).status).toBe(0);
      const pid = await awaitSleep(reader);
      expect(sleepers(command).filter((each) => nameOf(each) === 'sleep')).toEqual([]);
      process.kill(pid, 'SIGKILL');
      expect(String((await shell).stdout)).toContain('shell lives');
    }
  });

  test('a descendant that is spared is named, whatever ties it to the task', async ({ sandbox }) => {
    const server = ownSleep();
    const script = `env -i bash -c 'exec -a screen ${server.line}' 9>&- ${QUIET} & wait`;
    await startTask(sandbox, 'a', ['sh', '-c', script]);
    const pid = await until('it is there', () => sleepers(server).find((each) => nameOf(each) === 'sleep'));
    const { status, processes } = await teardownJson(sandbox, ['--stop', 'a']);
    expect([status, isAlive(pid)]).toEqual([0, true]);
    const said = processes.filter(({ action }) => action === 'spared');
    expect(said).toMatchObject([{ pid, evidence: ['descendant'], reason: 'a shared server (screen)' }]);
    process.kill(pid, 'SIGKILL');
  });

  test.skipIf(!isRoot)(
    "another user's process is not touched, though it descends from the command",
    async ({ sandbox }) => {
      const other = ownSleep();
      const script = `setpriv --reuid=${NOBODY} --regid=${NOBODY} --clear-groups ${other.line} ${QUIET} & wait`;
      await startTask(sandbox, 'a', ['sh', '-c', script]);
      const pid = await awaitSleep(other);
      const { status, processes } = await teardownJson(sandbox, ['--stop', 'a']);
      expect([status, isAlive(pid)]).toEqual([0, true]);
      expect(processes.find((each) => each.pid === pid)).toMatchObject({
        action: 'spared',
        reason: 'it is of another user',
      });
      process.kill(pid, 'SIGKILL');
    },
  );

  test('of a process that was given ends that one alone', async ({ sandbox }) => {
    const child = ownSleep();
    const shell = sandbox.start('setsid', ['--wait', 'sh', '-c', `${child.line} ${QUIET} & echo $$; wait`]);
    const pid = await awaitSleep(child);
    const parent = readProcess(pid);
    if (typeof parent === 'string') throw new Error(parent);
    await sandbox.spawn(['--env', '--pid', String(parent.ppid), 'a']);
    expect((await sandbox.teardown(['--stop', 'a'])).status).toBe(0);
    await shell;
    expect([isAlive(parent.ppid), isAlive(pid)]).toEqual([false, true]);
    process.kill(pid, 'SIGKILL');
  });

  test.for([
    ['B02 another start time', '1'],
    ['B11 a session leader with the pid', '1'],
  ] as const)('%s: nobody of it is signalled', async ([, start], { sandbox }) => {
    const [one, two] = [ownSleep(), ownSleep()];
    const stranger = sandbox.start('setsid', [
      '--wait',
      'sh',
      '-c',
      `${one.line} ${QUIET} & (${two.line} ${QUIET} &); wait`,
    ]);
    const pids = [await awaitSleep(one), await awaitSleep(two)];
    const parent = readProcess(pids[0] as number);
    if (typeof parent === 'string') throw new Error(parent);
    for (const args of [['--stop', '--grace-period', '0'], ['--wait'], []]) {
      await sandbox.finished('a');
      await sandbox.edit('a', { pid: String(parent.ppid), pid_start: start });
      const { status, processes } = await teardownJson(sandbox, [...args, 'a']);
      expect([status, processes]).toEqual([0, []]);
      expect([...pids, parent.ppid].map(isAlive)).toEqual([true, true, true]);
    }
    process.kill(parent.ppid, 'SIGKILL');
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    await stranger;
  });

  test('while a task inside it runs it is 75, names that one, and ends nothing', async ({ sandbox }) => {
    const [inner, leak] = [ownSleep(), ownSleep()];
    const script = `setsid ${leak.line} ${QUIET} & task-spawn b -- ${inner.line} & wait`;
    const { pid } = await startTask(sandbox, 'a', ['sh', '-c', script]);
    const pids = [await awaitSleep(inner), await awaitSleep(leak), pid];
    for (const args of [['--stop'], []]) {
      const { status, stderr } = await sandbox.teardown([...args, 'a']);
      expect(status).toBe(75);
      expect(stderr).toContain(
        args.length > 0 ? `started inside it runs: ${pids[0]} (sleep)` : `running as pid ${pid}`,
      );
      expect(pids.map(isAlive)).toEqual([true, true, true]);
    }
    process.kill(pid, 'SIGKILL');
    expect((await sandbox.teardown(['a'])).stderr).toContain(`started inside it runs: ${pids[0]} (sleep)`);
    expect(pids.slice(0, 2).map(isAlive)).toEqual([true, true]);
    expect((await sandbox.teardown(['--stop', 'b'])).status).toBe(0);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    expect(pids.map(isAlive)).toEqual([false, false, false]);
  });
});

describe('the order', () => {
  test('B07 processes end first, and find root and record as they were', async ({ sandbox }) => {
    const leak = ownSleep();
    const saved = join(sandbox.path, 'saved');
    const root = await sandbox.finished(
      'a',
      `echo work > "$FM_TASK_TMP/file"
      setsid sh -c 'trap "cat \\$FM_TASK_TMP/file > ${saved}; grep ^state= \\$FM_HOME/state/a.meta >> ${saved}; exit" TERM; ${leak.line} & wait' ${QUIET} &`,
    );
    await awaitSleep(leak);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    expect(readFileSync(saved, 'utf8')).toBe('work\nstate=active\n');
    expect(existsSync(root)).toBe(false);
  });

  test('a teardown that was killed before it ended anything is finished by the next spawn', async ({ sandbox }) => {
    const leak = ownSleep();
    await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
    await awaitSleep(leak);
    await sandbox.edit('a', { state: 'removing' });
    expect((await sandbox.spawn(['a', '--', 'true'])).status).toBe(0);
    expect(sleepers(leak)).toEqual([]);
  });

  test('a signal stops it while it waits: kept, and the next one finishes', async ({ sandbox }) => {
    const leak = ownSleep();
    const root = await sandbox.finished('a', `setsid sh -c 'trap "" TERM; ${leak.line} & wait' ${QUIET} &`);
    await awaitSleepers(leak);
    const run = sandbox.start('task-teardown', ['--grace-period', '60', 'a']);
    const mask = (pid: number) => /^SigCgt:\s*([0-9a-f]+)/m.exec(readFileSync(`/proc/${pid}/status`, 'latin1'))?.[1];
    await until('it listens', () => (Number.parseInt(mask(run.pid as number)?.slice(-4) ?? '0', 16) & 0x4000) !== 0);
    run.kill('SIGTERM');
    expect((await run).signal).toBe('SIGTERM');
    expect([existsSync(root), (await sandbox.record('a'))?.state]).toEqual([true, 'active']);
    expect((await sandbox.teardown(['--grace-period', '0', 'a'])).status).toBe(0);
    expect(sleepers(leak)).toEqual([]);
  });

  test('--grace-period bounds the wait; without it the end of the processes does', async ({ sandbox }) => {
    const leak = ownSleep();
    await sandbox.finished('a', `setsid sh -c 'trap "" TERM; while :; do ${leak.line}; done' ${QUIET} &`);
    await awaitSleepers(leak);
    const { processes } = await teardownJson(sandbox, ['--grace-period', '0.2', 'a']);
    const killed = processes.filter(({ action }) => action === 'killed');
    expect(killed.length).toBeGreaterThan(0);
    for (const { durationMs } of killed) expect(durationMs).toBeGreaterThanOrEqual(200);
    await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
    await awaitSleep(leak);
    const quick = await teardownJson(sandbox, ['--grace-period', '10m', 'a']);
    expect(quick.processes).toMatchObject([{ action: 'ended', command: 'sleep' }]);
    // A stopped one is made to go on, so that it hears TERM.
    await sandbox.finished('a', `setsid sh -c 'kill -STOP $$; exec ${leak.line}' ${QUIET} &`);
    const [pid] = await awaitSleepers(leak);
    await until('it is stopped', () => stateOf(pid as number) === 'T');
    const stopped = await teardownJson(sandbox, ['--grace-period', '10m', 'a']);
    expect(stopped.processes).toMatchObject([{ pid, action: 'ended' }]);
  });

  test('B08 nothing else than node is needed on PATH', async ({ sandbox }) => {
    const leak = ownSleep();
    const path = join(sandbox.path, 'only-node');
    await mkdir(path);
    await symlink(process.execPath, join(path, 'node'));
    await sandbox.finished('a', `env -i setsid ${leak.line} ${QUIET} &`);
    await awaitSleep(leak);
    const { status, processes } = await teardownJson(sandbox, ['a'], {
      env: { PATH: path },
      shell: ['/bin/sh'],
    });
    expect([status, processes.length, sleepers(leak)]).toEqual([0, 1, []]);
  });

  test('--dry-run names the same processes and signals none', async ({ sandbox }) => {
    const [leak, visitor] = [ownSleep(), ownSleep()];
    const root = await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
    const there = sandbox.start('sh', ['-c', `cd ${root}; exec ${visitor.line}`]);
    const pids = [await awaitSleep(leak), await awaitSleep(visitor)];
    const plan = await teardownJson(sandbox, ['--dry-run', 'a']);
    expect(plan.status).toBe(0);
    expect(pids.map(isAlive)).toEqual([true, true]);
    const done = await teardownJson(sandbox, ['a']);
    const list = (processes: typeof plan.processes) =>
      processes.map(({ pid, command, evidence }) => [pid, command, evidence]);
    const byPid = (one: unknown[], other: unknown[]) => Number(one[0]) - Number(other[0]);
    expect(list(done.processes).sort(byPid)).toEqual(list(plan.processes).sort(byPid));
    expect(plan.processes.map(({ action }) => action).sort()).toEqual(['spared', 'would end']);
    expect(done.processes.map(({ action }) => action)).toEqual(['ended', 'spared']);
    there.kill('SIGKILL');
    await there;
  });
});
