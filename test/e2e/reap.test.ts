/** Reaping: what a task left running is ended, nothing else is. Acceptance B01, B03, B04, B09, cases B83 to B92. */
import { existsSync } from 'node:fs';
import { describe, expect } from 'vitest';
import { isRoot, type Sandbox, test } from '../helpers/sandbox.ts';
import { isAlive } from '../helpers/tasks.ts';
import { until } from '../helpers/until.ts';
import { ARTISTS, awaitSleepers, nameOf, ownSleep, QUIET, type Sleep, sleepers, teardownJson } from '../helpers/zoo.ts';

async function expectGone(sandbox: Sandbox, id: string, root: string): Promise<void> {
  expect(await sandbox.record(id)).toBeUndefined();
  expect(existsSync(root)).toBe(false);
}

/** Runs a script as the task `a` and waits until a process says the sleep. */
async function leave(sandbox: Sandbox, script: string, sleep: Sleep): Promise<string> {
  const root = await sandbox.finished('a', script);
  await awaitSleepers(sleep);
  return root;
}

describe('escape artists: ended', () => {
  test.for(ARTISTS)('$title', async ({ line }, { sandbox }) => {
    const sleep = ownSleep();
    const root = await leave(sandbox, line.replaceAll('SLEEP', sleep.line), sleep);
    const { status, processes } = await teardownJson(sandbox, ['--grace-period', '0.3', 'a']);
    expect(status).toBe(0);
    expect(sleepers(sleep)).toEqual([]);
    expect(processes.length).toBeGreaterThan(0);
    for (const each of processes) {
      expect(each).toMatchObject({
        pid: expect.any(Number),
        command: expect.any(String),
        action: expect.stringMatching(/^(ended|killed)$/),
        durationMs: expect.any(Number),
      });
      for (const evidence of each.evidence) expect(['token', 'hold', 'parent']).toContain(evidence);
      expect(each.evidence).not.toEqual([]);
    }
    await expectGone(sandbox, 'a', root);
  });

  test('all of them at once', async ({ sandbox }) => {
    const sleep = ownSleep();
    const root = await leave(
      sandbox,
      ARTISTS.map(({ line }) => line.replaceAll('SLEEP', sleep.line)).join('\n'),
      sleep,
    );
    expect((await sandbox.teardown(['--grace-period', '0.3', 'a'])).status).toBe(0);
    expect(sleepers(sleep)).toEqual([]);
    await expectGone(sandbox, 'a', root);
  });

  test.skipIf(!isRoot)('in a pid namespace, where /proc/locks hides the hold', async ({ sandbox }) => {
    const sleep = ownSleep();
    const script = `task-spawn a -- sh -c 'env -i setsid ${sleep.line} ${QUIET} &'; task-teardown a; echo $?; pgrep -xc sleep`;
    const { stdout, stderr } = await sandbox.run('unshare', ['-p', '-f', '--mount-proc', 'sh', '-c', script]);
    expect(stderr).toMatch(/ended \d+ \((sleep|setsid|env|sh); hold\)/);
    expect(stdout).toBe('0\n0');
  });
});

/** A process that has nothing to do with the task `a` of the sandbox; started when its root exists. */
interface Bystander {
  readonly title: string;
  /** A line of sh, run outside the task; names that begin with @ are filled in. */
  readonly line: string;
  /** How the teardown reports it; undefined: not at all. */
  readonly evidence?: string;
}

const BYSTANDERS: readonly Bystander[] = [
  { title: 'B09 a task whose id begins alike', line: 'task-spawn a2 -- @SLEEP' },
  { title: 'an environment that mentions the token', line: 'NOTE="FM_TASK_TOKEN=@TOKEN" exec @SLEEP' },
  { title: 'a variable whose name ends alike', line: 'MY_FM_TASK_TOKEN=@TOKEN exec @SLEEP' },
  { title: 'the token with more behind it', line: 'FM_TASK_TOKEN=@TOKEN"2" exec @SLEEP' },
  { title: 'the id in another variable', line: 'FM_TASK_ID=a exec @SLEEP' },
  { title: 'arguments that mention the token', line: "exec sh -c '@SLEEP; :' FM_TASK_TOKEN=@TOKEN" },
  { title: 'B01 its working directory is the root', line: 'cd @ROOT && exec @SLEEP', evidence: 'cwd' },
  { title: 'its working directory is below the root', line: 'cd @ROOT/gotmp && exec @SLEEP', evidence: 'cwd' },
  { title: 'a log follower', line: 'exec sh -c "@SLEEP; :" 5<@ROOT/log', evidence: 'file' },
  { title: 'the root merely open, without the lock', line: 'exec @SLEEP 9<@ROOT', evidence: 'file' },
  {
    title: 'a program in the root',
    line: 'cp "$(command -v sleep)" @ROOT/prog; exec @ROOT/prog @LENGTH',
    evidence: 'exe',
  },
  { title: 'a program of the same name', line: 'exec -a sleep @SLEEP' },
];

describe('bystanders: alive, and named where they stand in the root', () => {
  test.for(BYSTANDERS)('$title', async ({ line, evidence }, { sandbox }) => {
    const [sleep, leak] = [ownSleep(), ownSleep()];
    const root = await leave(sandbox, `echo > "$FM_TASK_TMP/log"; setsid ${leak.line} ${QUIET} &`, leak);
    const values: Record<string, string> = {
      '@ROOT': root,
      '@TOKEN': (await sandbox.record('a'))?.token as string,
      '@SLEEP': sleep.line,
      '@LENGTH': sleep.length,
    };
    const script = line.replaceAll(/@[A-Z]+/g, (name) => values[name] as string);
    const bystander = sandbox.start('bash', ['-c', `${script} # ${sleep.length}`], { stdio: 'ignore' });
    const pids = await until('it runs', () => {
      const found = sleepers(sleep);
      return found.length > 0 && found.every((pid) => /^(sleep|sh|prog)$/.test(nameOf(pid))) ? found : undefined;
    });
    try {
      const { status, processes, stderr } = await teardownJson(sandbox, ['a']);
      expect(status).toBe(0);
      expect(sleepers(leak)).toEqual([]);
      expect(pids.map((pid) => [pid, isAlive(pid)])).toEqual(pids.map((pid) => [pid, true]));
      const spared = processes.filter(({ action }) => action === 'spared');
      if (evidence === undefined) expect(spared).toEqual([]);
      else {
        expect(spared.length).toBeGreaterThan(0);
        expect(spared[0]).toMatchObject({ evidence: [evidence], reason: 'a visitor' });
        expect(stderr).toMatch(/spared \d+ \(\w+; \w+\): a visitor; end it, or use --reap-visitors/);
      }
      await expectGone(sandbox, 'a', root);
    } finally {
      for (const pid of sleepers(sleep)) process.kill(pid, 'SIGKILL');
      await bystander;
    }
  });
});
