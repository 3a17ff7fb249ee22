/**
 * Signals while a launch is planned (design section 6, "Becoming the command"; issue 2): never a command that starts
 * after the signal, never a signal that is swallowed, and whatever exists is named by a record that teardown finishes.
 */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect } from 'vitest';
import { acquireLock } from '../../lib/lock.ts';
import { findPlanner, listeningPlanner, proc } from '../helpers/planner.ts';
import { processesWith, type Sandbox, test } from '../helpers/sandbox.ts';
import { SHELLS } from '../helpers/shells.ts';
import { until } from '../helpers/until.ts';

const TARGETS = ['shim', 'node', 'both'] as const;
type Target = (typeof TARGETS)[number];
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGKILL'] as const;

/** A command that says that it was started, and stays. */
const mark = (sandbox: Sandbox, id: string) => join(sandbox.path, `started-${id}`);
const command = (sandbox: Sandbox, id: string) => ['sh', '-c', `: >'${mark(sandbox, id)}'; exec sleep 600`];

/** Launches in a process group of its own, without core files. */
function launch(sandbox: Sandbox, id: string, shell: readonly string[] = ['sh']) {
  const words = ['-c', 'ulimit -c 0; exec "$@"', 'sh', ...shell, join(sandbox.bin, 'task-spawn'), id, '--'];
  return sandbox.start('sh', [...words, ...command(sandbox, id)], { detached: true });
}

/** Sends a signal; false when there was nobody to get it. */
function send(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** Makes a home with a state folder, and holds the lock of a task there. */
async function holdLock(sandbox: Sandbox, id: string) {
  await sandbox.finished('first');
  await sandbox.teardown(['first']);
  const lock = await acquireLock(sandbox.state(`${id}.lock`), { ms: 0, beat: async () => {} });
  if (!lock) throw new Error('the lock is not free');
  return lock;
}

/** Nothing of the sandbox runs any more; every root is named by a record, and teardown clears it all. */
async function expectFinishable(sandbox: Sandbox): Promise<void> {
  await until('all of it has ended', () => processesWith(`FM_HOME=${sandbox.home}`).length === 0);
  const ids = (await readdir(sandbox.state('')))
    .filter((name) => name.endsWith('.meta'))
    .map((name) => name.slice(0, -5));
  const named = await Promise.all(ids.map(async (id) => (await sandbox.record(id))?.tasktmp));
  for (const root of await readdir(sandbox.base)) expect(named).toContain(join(sandbox.base, root));
  if (ids.length > 0) expect(await sandbox.teardown(ids)).toMatchObject({ status: 0 });
  expect(await readdir(sandbox.base)).toEqual([]);
  const rest = (await readdir(sandbox.state(''))).filter((name) => !/^home-id$|\.lock$|\.meta\.new$/.test(name));
  expect(rest).toEqual([]);
}

describe.each(SHELLS)('under $name, while Node waits for the lock', ({ words }) => {
  test('a signal to the shim, to Node or to both ends the launch', async ({ sandbox }) => {
    const lock = await holdLock(sandbox, 'a');
    const wrong: string[] = [];
    const attempt = async (target: Target, signal: (typeof SIGNALS)[number]) => {
      const shim = launch(sandbox, 'a', words(sandbox));
      const planner = await listeningPlanner(sandbox, 'a');
      if (target === 'shim') send(shim.pid as number, signal);
      if (target === 'node') send(planner, signal);
      if (target === 'both') send(-(shim.pid as number), signal);
      return { shim, planner, name: `${signal} to ${target}` };
    };
    for (const signal of SIGNALS) {
      for (const target of ['node', 'both'] as const) {
        const { shim, name } = await attempt(target, signal);
        const { exitCode, signal: end, stderr } = await shim;
        const right = target === 'node' ? exitCode === 125 && /task-spawn: /.test(String(stderr)) : end === signal;
        if (!right) wrong.push(`${name}: ${exitCode} ${end} ${stderr}`);
        await until('Node is gone', () => findPlanner(sandbox, 'a') === undefined);
      }
    }
    // The death of the shell ends the planning while it still waits.
    const { shim, planner } = await attempt('shim', 'SIGKILL');
    expect((await shim).signal).toBe('SIGKILL');
    await until('Node is gone', () => proc(planner, 'cmdline') === '');
    // Any other signal to the shell alone is remembered: Node goes on to the end, and the command is not started.
    const pending = await attempt('shim', 'SIGQUIT');
    expect(proc(pending.planner, 'cmdline')).not.toBe('');
    lock.release({ unlink: true });
    expect((await pending.shim).signal).toBe('SIGQUIT');
    const root = (await sandbox.record('a'))?.tasktmp;
    expect(existsSync(root as string)).toBe(true);
    expect(wrong).toEqual([]);
    expect(existsSync(mark(sandbox, 'a'))).toBe(false);
    await expectFinishable(sandbox);
  });
});

test('E05 a signal that the caller ignores does not end the planning', async ({ sandbox }) => {
  const lock = await holdLock(sandbox, 'a');
  const script = `trap '' HUP INT; exec task-spawn a -- sh -c ': >"${mark(sandbox, 'a')}"'`;
  const shim = sandbox.start('sh', ['-c', script], { detached: true });
  await listeningPlanner(sandbox, 'a');
  for (const signal of ['SIGHUP', 'SIGINT'] as const) send(-(shim.pid as number), signal);
  lock.release({ unlink: true });
  expect(await shim).toMatchObject({ exitCode: 0, stderr: '' });
  expect(existsSync(mark(sandbox, 'a'))).toBe(true);
});

test('at random moments', async ({ sandbox }) => {
  await sandbox.finished('first');
  const wrong: string[] = [];
  const ids = Array.from({ length: 60 }, (_, index) => `r${index}`);
  const left = [...ids];
  const attempt = async (id: string) => {
    const random = seeded(id);
    const target = pick(TARGETS, random);
    const { name: shell, words } = pick(SHELLS, random);
    // A limit: before it has set its traps, and after, bash and busybox ignore SIGQUIT.
    const signal = pick(shell === 'dash' ? SIGNALS : SIGNALS.filter((name) => name !== 'SIGQUIT'), random);
    const shim = launch(sandbox, id, words(sandbox));
    const pid = shim.pid as number;
    await sleep(random() * 250);
    const planner = target === 'node' ? findPlanner(sandbox, id) : undefined;
    const started = existsSync(mark(sandbox, id));
    const sent =
      target === 'shim'
        ? send(pid, signal)
        : target === 'both'
          ? send(-pid, signal)
          : planner !== undefined && send(planner, signal);
    const name = `${id} (${shell}): ${signal} to ${target}${started ? ', started' : ''}`;
    if (target === 'node') {
      // Node may have been through: then the command runs. (A look at /proc would not do: what execs has no cmdline.)
      let ended = false;
      const outcome = shim.finally(() => {
        ended = true;
      });
      await until(`${name}: an end or a start`, () => ended || existsSync(mark(sandbox, id)));
      if (!ended) send(-pid, 'SIGKILL');
      const { exitCode, signal: end, stderr } = await outcome;
      // bash dies of the SIGINT that its child died of.
      const right = exitCode === 125 || end === signal;
      if (sent && !right && !existsSync(mark(sandbox, id))) wrong.push(`${name}: ${exitCode} ${end} ${stderr}`);
      return;
    }
    // The shim, or the command that it has become, dies of it; were it swallowed, the command would stay.
    const timer = setTimeout(() => send(-pid, 'SIGUSR1'), 30_000);
    const { signal: end, exitCode, stderr } = await shim;
    clearTimeout(timer);
    if (end !== signal) wrong.push(`${name}: ${end} ${exitCode} ${stderr}`);
  };
  const worker = async () => {
    for (let id = left.pop(); id !== undefined; id = left.pop()) await attempt(id);
  };
  await Promise.all([worker(), worker(), worker()]);
  expect(wrong).toEqual([]);
  await expectFinishable(sandbox);
});

const pick = <T>(list: readonly T[], random: () => number): T => list[Math.floor(random() * list.length)] as T;

/** Numbers from 0 to 1 that are the same in each run (mulberry32). */
function seeded(seed: string): () => number {
  let state = [...seed].reduce((sum, letter) => Math.imul(sum, 31) + letter.charCodeAt(0), 7);
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
