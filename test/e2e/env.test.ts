/** --env: a task without a command of ours, for orchestrators. */
import { existsSync } from 'node:fs';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { acquireLock } from '../../lib/lock.ts';
import { listeningPlanner } from '../helpers/planner.ts';
import { type Sandbox, test } from '../helpers/sandbox.ts';

/** Runs a script in bash, as an orchestrator would. */
const script = (sandbox: Sandbox, text: string, env = {}) => sandbox.run('bash', ['-c', text], { env });

describe('task-spawn --env', () => {
  test('prints exports that eval takes, and the task is held until its teardown', async ({ sandbox }) => {
    const { stdout, status } = await script(
      sandbox,
      'eval "$(task-spawn --env a)" && test -d "$GOTMPDIR" && env | grep ^FM_TASK && echo "[$FM_HOME]"',
    );
    expect(status).toBe(0);
    const record = await sandbox.record('a');
    expect(record).toMatchObject({ state: 'held', pid: '', pid_start: '', tty_nr: '', command: '""' });
    expect(stdout).toContain(`FM_TASK_TMP=${record?.tasktmp}\n`);
    expect(stdout).toContain(`FM_TASK_TOKEN=${record?.token}`);
    expect(stdout).toContain(`[${sandbox.home}]`);
    expect((await sandbox.status()).tasks[0]).toMatchObject({ id: 'a', state: 'held' });

    const refused = await sandbox.spawn(['a', '--', 'true']);
    expect([refused.status, refused.stderr]).toEqual([125, expect.stringContaining('it is held')]);
    const done = await sandbox.teardown(['a']);
    expect(done.status).toBe(0);
    expect(existsSync(record?.tasktmp as string)).toBe(false);
  });

  test('quotes what a shell would take apart', async ({ sandbox }) => {
    const base = join(sandbox.path, `it's a "base" $(touch no) \\`);
    await mkdir(base);
    const { stdout, status } = await script(sandbox, 'eval "$(task-spawn --env a)" && printf %s "$FM_TASK_TMP"', {
      FM_TASK_TMP_BASE: base,
    });
    expect(status).toBe(0);
    expect(stdout).toBe((await sandbox.record('a'))?.tasktmp);
    expect(stdout.startsWith(`${base}/`)).toBe(true);
    expect(existsSync(join(sandbox.path, 'no'))).toBe(false);
  });

  test.for([
    ['a bad id', 'task-spawn --env a..b'],
    ['a task that is taken', 'task-spawn --env taken'],
    ['an unknown option', 'task-spawn --env --nope a'],
    ['a command', 'task-spawn --env a -- true'],
    ['a process that is not there', 'task-spawn --env --pid 4194305 a'],
    ['a base that is missing', 'task-spawn --env --base /nowhere/at/all a'],
    ['no Node', 'PATH=/nowhere "$(command -v task-spawn)" --env a'],
  ])('makes the eval fail for %s, with one line and nothing made', async ([, command], { sandbox }) => {
    await sandbox.run('bash', ['-c', 'task-spawn --env taken']);
    const { status, stdout, stderr } = await script(sandbox, `eval "$(${command})" && echo ok`);
    expect(status).not.toBe(0);
    expect(stdout).toBe('');
    expect(stderr.split('\n')).toHaveLength(1);
    expect(stderr).toMatch(/^task-spawn: /);
    expect(await sandbox.record('a')).toBeUndefined();
  });

  test('--json is one documented object, for a refusal too', async ({ sandbox }) => {
    const made = JSON.parse((await sandbox.spawn(['--env', '--json', '--no-pin', 'a'])).stdout);
    const record = await sandbox.record('a');
    expect(made).toMatchObject({
      version: 1,
      id: 'a',
      root: record?.tasktmp,
      relaunched: false,
      unset: ['FM_TASK_PARENT'],
    });
    expect(made.env).toEqual({
      FM_HOME: sandbox.home,
      FM_TASK_ID: 'a',
      FM_TASK_TMP: record?.tasktmp,
      FM_TASK_TOKEN: record?.token,
      GOTMPDIR: `${record?.tasktmp}/gotmp`,
    });
    const refused = await sandbox.spawn(['--env', '--json', 'a']);
    expect(refused.status).toBe(125);
    expect(JSON.parse(refused.stdout)).toMatchObject({ version: 1, error: { code: 'BUSY' } });
  });

  test('--pid $$: the shell is the task, and tears it down itself; nobody else can, and nobody signals it', async ({
    sandbox,
  }) => {
    const { status, stdout, stderr } = await script(
      sandbox,
      `eval "$(task-spawn --env --pid $$ a)" || exit 9
       task-status --json > status.json
       setsid --wait task-teardown a; echo "inside: $?"
       echo "alive: $$"`,
    );
    expect(status).toBe(0);
    expect(stderr).toContain('removed');
    const [inside, alive] = stdout.split('\n');
    expect(inside).toBe('inside: 0');
    expect(alive).toMatch(/^alive: \d+$/);
    expect(await sandbox.record('a')).toBeUndefined();
  });

  test('--pid of another process: teardown from outside is 75, and 0 once it has ended', async ({ sandbox }) => {
    const sleeper = sandbox.start('sleep', ['600']);
    await sandbox.spawn(['--env', '--pid', String(sleeper.pid), 'a']);
    expect(await sandbox.record('a')).toMatchObject({ state: 'active', pid: String(sleeper.pid), command: '""' });
    const kept = await sandbox.teardown(['a']);
    expect([kept.status, kept.stderr]).toEqual([75, expect.stringContaining(`running as pid ${sleeper.pid}`)]);
    sleeper.kill('SIGKILL');
    await sleeper;
    expect((await sandbox.teardown(['a'])).status).toBe(0);
  });

  test('an ended --pid task is relaunched with its content', async ({ sandbox }) => {
    const first = await script(sandbox, 'eval "$(task-spawn --env --pid $$ a)" && touch "$FM_TASK_TMP/kept"');
    expect(first.status).toBe(0);
    const again = await sandbox.spawn(['a', '--', 'sh', '-c', 'ls "$FM_TASK_TMP"']);
    expect(again.stdout.split('\n').sort()).toEqual(['gotmp', 'kept']);
  });

  test('a signal to the shim alone makes the eval fail too', async ({ sandbox }) => {
    await sandbox.finished('first');
    await sandbox.teardown(['first']);
    const lock = await acquireLock(sandbox.state('a.lock'), { ms: 0, beat: async () => {} });
    const run = sandbox.start('task-spawn', ['--env', 'a']);
    await listeningPlanner(sandbox, 'a');
    process.kill(run.pid as number, 'SIGTERM');
    lock?.release({ unlink: true });
    const { stdout, signal } = await run;
    expect([stdout, signal]).toEqual(['false', 'SIGTERM']);
    expect((await sandbox.teardown(['a'])).status).toBe(0);
  });

  test('exports that cannot be written are a failure', async ({ sandbox }) => {
    const { status } = await script(sandbox, 'task-spawn --env a >/dev/full');
    expect(status).toBe(125);
  });

  test('a spawn_gen of anybody else is refused', async ({ sandbox }) => {
    expect((await sandbox.spawn(['--spawn-gen', 'zz', 'a', '--', 'true'])).status).toBe(125);
    expect(await readdir(sandbox.base)).toEqual([]);
  });
});
