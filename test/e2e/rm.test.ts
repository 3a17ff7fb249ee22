/** --rm: the prefix with a parent that tears the task down, and ids that were left out. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { type Sandbox, test } from '../helpers/sandbox.ts';
import { until } from '../helpers/until.ts';

const rm = (sandbox: Sandbox, script: string, options = {}) =>
  sandbox.spawn(['--rm', 'a', '--', 'sh', '-c', script], options);

/** Nothing of the task is left: no record, no root. */
async function expectGone(sandbox: Sandbox): Promise<void> {
  expect(await readdir(sandbox.base)).toEqual([]);
  expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
}

describe('task-spawn --rm', () => {
  test.for([0, 1, 7, 125, 126, 127, 255])('ends with the status %i and leaves nothing', async (status, { sandbox }) => {
    const outcome = await rm(sandbox, `touch "$FM_TASK_TMP/x"; exit ${status}`);
    expect([outcome.status, outcome.stdout, outcome.stderr]).toEqual([status, '', '']);
    await expectGone(sandbox);
  });

  test.for(['TERM', 'INT', 'HUP', 'KILL', 'USR2'])('dies of SIG%s as the command did', async (name, { sandbox }) => {
    const outcome = await rm(sandbox, `kill -${name} $$`);
    expect(outcome.signal).toBe(`SIG${name}`);
    await expectGone(sandbox);
  });

  test.for([
    ['PIPE', 141],
    ['USR1', 138],
    ['QUIT', 131],
  ] as const)(
    'gives %s as the status that a shell gives it: Node cannot die of it, or would dump core',
    async ([name, status], { sandbox }) => {
      expect((await rm(sandbox, `kill -${name} $$`)).status).toBe(status);
      await expectGone(sandbox);
    },
  );

  test('passes arguments, standard input and the blanked variables on', async ({ sandbox }) => {
    const script = 'cat; printf "[%s]" "$@" "$NODE_OPTIONS" "$TMPDIR" "${NODE_PATH-unset}" "${OPENSSL_CONF-unset}"';
    const { stdout } = await sandbox.spawn(
      ['--rm', 'a', '--', 'sh', '-c', script, 'sh', "it's", '', 'a\nb', '--', '$x'],
      {
        input: 'in',
        env: { NODE_OPTIONS: '--no-warnings', TMPDIR: '/nowhere', NODE_PATH: '' },
      },
    );
    expect(stdout).toBe("in[it's][][a\nb][--][$x][--no-warnings][/nowhere][][unset]");
  });

  test('refuses arguments that Node would not pass on byte for byte, before anything is made', async ({ sandbox }) => {
    const { status, stderr } = await sandbox.run('bash', ['-c', "task-spawn --rm a -- echo $'\\xff'"]);
    expect([status, stderr]).toEqual([125, expect.stringContaining('not valid UTF-8')]);
    expect(existsSync(sandbox.home)).toBe(false);
  });

  test('a command that is not there: 127 and one line', async ({ sandbox }) => {
    const { status, stderr } = await sandbox.spawn(['--rm', 'a', '--', 'no-such-command']);
    expect([status, stderr]).toEqual([
      127,
      expect.stringMatching(/^task-spawn: no-such-command: command not found[^\n]*$/),
    ]);
    expect(await readdir(sandbox.base)).toEqual([]);
  });

  test('SIGTERM to the parent alone goes on to the command, once, and the task is torn down', async ({ sandbox }) => {
    const script =
      'n=0; trap "n=\\$((n+1)); echo \\$n >> got" TERM; touch up; until test -e go; do sleep 0.05; done; cat got; exit 5';
    const run = sandbox.start('task-spawn', ['--rm', 'a', '--', 'sh', '-c', script]);
    await until('the command listens', () => existsSync(join(sandbox.path, 'up')));
    process.kill(run.pid as number, 'SIGTERM');
    await until('it heard', () => existsSync(join(sandbox.path, 'got')));
    await sandbox.run('touch', ['go']);
    const { exitCode, stdout } = await run;
    expect([exitCode, stdout]).toEqual([5, '1']);
    await expectGone(sandbox);
  });

  test('a launch that was refused never touches the running task of that id, or a held one', async ({ sandbox }) => {
    const run = sandbox.start('task-spawn', ['a', '--', 'sleep', '600']);
    await until('a runs', async () => (await sandbox.record('a'))?.state === 'active');
    await sandbox.spawn(['--env', 'held']);
    for (const id of ['a', 'held']) {
      const root = (await sandbox.record(id))?.tasktmp as string;
      const refused = await sandbox.spawn(['--rm', id, '--', 'true']);
      expect(refused.status).toBe(125);
      expect(existsSync(root)).toBe(true);
      expect(await sandbox.record(id)).toBeDefined();
    }
    run.kill('SIGKILL');
    await run;
  });

  test('a signal while it tears down stops that between two entries, and the next teardown finishes', async ({
    sandbox,
  }) => {
    const script = 'i=0; while [ $i -lt 20000 ]; do : > "$FM_TASK_TMP/$i"; i=$((i+1)); done';
    const run = sandbox.start('task-spawn', ['--rm', 'a', '--', 'sh', '-c', script]);
    await until('it tears down', async () => (await sandbox.record('a'))?.state === 'removing', 110_000);
    process.kill(run.pid as number, 'SIGTERM');
    expect((await run).signal).toBe('SIGTERM');
    expect(await sandbox.record('a')).toMatchObject({ state: 'removing' });
    expect((await sandbox.teardown(['a'])).status).toBe(0);
    await expectGone(sandbox);
  });

  test('raced for one id: each command runs alone, what is refused is 125, and nothing is left', async ({
    sandbox,
  }) => {
    // mkdir fails for the second that would be inside at the same time, and for one whose root was taken away under it.
    const script = 'mkdir inside && test -d "$GOTMPDIR" && sleep 0.05 && test -d "$GOTMPDIR" && rmdir inside';
    const runs = Array.from({ length: 24 }, () => rm(sandbox, script));
    const statuses = (await Promise.all(runs)).map(({ status }) => status);
    expect(statuses.filter((status) => status !== 125 && status !== 0)).toEqual([]);
    expect(statuses.filter((status) => status === 0).length).toBeGreaterThan(0);
    await expectGone(sandbox);
  });

  test("what the command left in the background goes with the task, and the status is the command's", async ({
    sandbox,
  }) => {
    const { status, stderr } = await rm(sandbox, 'setsid sleep 600 >/dev/null 2>&1 & exit 3');
    expect(status).toBe(3);
    expect(stderr).toBe('');
    await expectGone(sandbox);
  });
});

describe('an id that was left out', () => {
  test("is made from the command's name, printed, and --rm is implied", async ({ sandbox }) => {
    const { status, stdout, stderr } = await sandbox.spawn([
      '--',
      '/usr/bin/env',
      'sh',
      '-c',
      'echo "$FM_TASK_ID"; exit 4',
    ]);
    expect(status).toBe(4);
    expect(stdout).toMatch(/^env-[0-9a-f]{4}$/);
    expect(stderr).toBe(`task-spawn: the task is ${stdout}`);
    await expectGone(sandbox);
  });
});
