/** Many at once, and killed at any moment: acceptance A18, A20, A24, and the promise that nothing is undiscoverable. */
import { existsSync, lstatSync, readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { acquireLock } from '../../lib/lock.ts';
import { makeFastSandbox, test } from '../helpers/fast.ts';
import { listPoints, type Point, pauseAt, runStruck } from '../helpers/points.ts';
import { eachOf } from '../helpers/pool.ts';
import { withRacers } from '../helpers/racers.ts';
import { processesWith, type Sandbox } from '../helpers/sandbox.ts';
import { until } from '../helpers/until.ts';

/** Every directory in the base is named by a record. */
async function expectRecorded(sandbox: Sandbox, id: string, what: string): Promise<void> {
  const roots = readdirSync(sandbox.base).map((name) => join(sandbox.base, name));
  if (roots.length > 0) expect([(await sandbox.record(id))?.tasktmp], what).toEqual(roots);
}

/** Nothing of a task is left: no root, no record, no lock, no staging. */
function expectNothing(sandbox: Sandbox, what: string): void {
  expect(readdirSync(sandbox.base), what).toEqual([]);
  const left = existsSync(sandbox.state('')) ? readdirSync(sandbox.state('')) : [];
  expect(
    left.filter((name) => !name.startsWith('.') && name !== 'home-id'),
    what,
  ).toEqual([]);
}

/** After a kill: all is on record, teardown finishes, and the id can be used again. */
async function expectRecovery(sandbox: Sandbox, what: string): Promise<void> {
  await expectRecorded(sandbox, 'x', what);
  const torn = await sandbox.teardown(['x']);
  expect(torn, what).toMatchObject({ status: 0 });
  expectNothing(sandbox, what);
  const again = await sandbox.spawn(['x', '--', 'sh', '-c', 'test -d "$GOTMPDIR" && test -f "$FM_HOME/state/x.meta"']);
  expect(again, what).toMatchObject({ status: 0 });
}

async function atEachPoint(
  points: readonly Point[],
  prepare: (sandbox: Sandbox) => Promise<unknown>,
  strike: (sandbox: Sandbox, point: Point, what: string) => Promise<unknown>,
): Promise<void> {
  await eachOf(points, 4, async (point) => {
    const what = `${point.call} ${point.when}`;
    const sandbox = await makeFastSandbox();
    try {
      await prepare(sandbox);
      await strike(sandbox, point, what);
      await expectRecovery(sandbox, what);
    } finally {
      await sandbox.dispose();
    }
  });
}

const nothing = () => Promise.resolve();

describe('SIGKILL', () => {
  test('of Node at each system call of a fresh spawn leaves only what a record names', async ({ sandbox }) => {
    const points = await listPoints(sandbox, 'task-spawn', ['x', '--', 'true']);
    for (const call of ['mkdir', 'rename', 'link', 'unlink', 'fsync', 'openat'])
      expect(points.map((point) => point.call)).toContain(call);
    await atEachPoint(points, nothing, async (struck, point, what) => {
      const outcome = await runStruck(struck, point, 'KILL', 'task-spawn', ['x', '--', 'echo', 'ran']);
      expect(outcome, what).toMatchObject({ status: 125, stdout: '' });
      expect(outcome.stderr, what).toContain('planning ended early (node: status 137)');
    });
  });

  test('of Node at each system call of a relaunch whose root is gone', async ({ sandbox }) => {
    const prepare = async (struck: Sandbox) => {
      await struck.run('rm', ['-r', await struck.finished('x')]);
    };
    await prepare(sandbox);
    const points = await listPoints(sandbox, 'task-spawn', ['x', '--', 'true']);
    expect(points.filter(({ call }) => call === 'mkdir')).toHaveLength(2);
    await atEachPoint(
      points.filter(({ call }) => call !== 'openat'),
      prepare,
      async (struck, point, what) => {
        const outcome = await runStruck(struck, point, 'KILL', 'task-spawn', ['x', '--', 'true']);
        expect(outcome, what).toMatchObject({ status: 125 });
        expect((await struck.record('x'))?.state, what).toBe('active');
      },
    );
  });

  test('of the shim at each change a spawn makes: nothing goes on being made after it', async ({ sandbox }) => {
    const all = await listPoints(sandbox, 'task-spawn', ['x', '--', 'true']);
    const points = all.filter(({ call }) => ['mkdir', 'rename', 'fsync'].includes(call));
    await atEachPoint(points, nothing, async (struck, point, what) => {
      const { shim, resume } = await pauseAt(struck, point, 'task-spawn', ['x', '--', 'sh', '-c', 'echo ran']);
      process.kill(shim, 'SIGKILL');
      await until('the shim is gone', () => isGone(shim));
      const outcome = await resume();
      expect(outcome.stdout, what).not.toContain('ran');
      await until('Node is gone', () => processesWith(`FM_HOME=${struck.home}`).length === 0);
    });
  });

  test('of a teardown at each of its system calls', async ({ sandbox }) => {
    const prepare = (struck: Sandbox) => struck.finished('x', 'mkdir -p "$FM_TASK_TMP/a/b"; : > "$FM_TASK_TMP/a/f"');
    await prepare(sandbox);
    const points = await listPoints(sandbox, 'task-teardown', ['x']);
    for (const call of ['unlink', 'rmdir', 'rename', 'fsync', 'openat'])
      expect(points.map((point) => point.call)).toContain(call);
    await atEachPoint(points, prepare, async (struck, point, what) => {
      const outcome = await runStruck(struck, point, 'KILL', 'task-teardown', ['x']);
      expect(outcome, what).toMatchObject({ signal: 'SIGKILL' });
    });
  });
});

function isGone(pid: number): boolean {
  try {
    return / Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
}

describe('one id', () => {
  test('A27 50 spawns at once: exactly one runs, the others name its pid', async ({ sandbox }) => {
    const ready = join(sandbox.path, 'pid');
    const all = Array.from({ length: 50 }, () =>
      sandbox.spawn(['x', '--', 'sh', '-c', `echo $$ > ${ready}.$$; while ! test -e ${ready}.end; do sleep 0.1; done`]),
    );
    let ended = 0;
    for (const one of all) void one.then(() => ended++);
    await until('49 have given up', () => ended === 49);
    const pids = readdirSync(sandbox.path).filter((name) => name.startsWith('pid.'));
    expect(pids).toHaveLength(1);
    await writeFile(`${ready}.end`, '');
    const outcomes = await Promise.all(all);
    expect(outcomes.filter(({ status }) => status === 0)).toHaveLength(1);
    const refused = outcomes.filter(({ status }) => status === 125);
    expect(refused).toHaveLength(49);
    const pid = pids[0]?.slice('pid.'.length);
    for (const { stderr } of refused) {
      expect(stderr.split('\n')).toHaveLength(1);
      expect(stderr).toMatch(new RegExp(`pid ${pid}\\b`));
    }
  });

  test('spawn against teardown, raced 200 times: always one of the two orders', async ({ sandbox }) => {
    const { home, base } = sandbox;
    await sandbox.finished('first');
    await sandbox.teardown(['first']);
    const seen = new Map<string, number>();
    await withRacers(async (spawner, remover) => {
      for (let round = 0; round < 200; round++) {
        const id = `x${round}`;
        const alive = round % 2 === 0;
        const job = { id, home, base, abortAt: 0, alive };
        const [spawned, torn] = await Promise.all([
          spawner.do({ ...job, do: 'spawn' }),
          remover.do({ ...job, do: 'teardown' }),
        ]);
        expect(spawned, id).toEqual({ is: 'ok', message: '' });
        // A live task is never taken; what is taken goes whole.
        expect(alive ? ['nothing', 'BUSY'] : ['nothing', 'removed'], `${id} ${torn.message}`).toContain(torn.is);
        const record = await sandbox.record(id);
        const roots = readdirSync(base).filter((name) => name.endsWith(`-${id}`));
        expect(
          roots.map((name) => join(base, name)),
          id,
        ).toEqual(record ? [record.tasktmp] : []);
        expect(record === undefined, id).toBe(torn.is === 'removed');
        seen.set(torn.is, (seen.get(torn.is) ?? 0) + 1);
      }
    });
    expect([...seen.keys()].sort(), 'both orders occurred').toEqual(['BUSY', 'nothing', 'removed']);
  });

  test('spawn against teardown, as commands', async ({ sandbox }) => {
    await sandbox.finished('first');
    // The task itself proves that its root and record stay for as long as it runs.
    const script = 'test -d "$GOTMPDIR" && test -f "$FM_HOME/state/$FM_TASK_ID.meta" && : > "$FM_TASK_TMP/end"';
    for (let round = 0; round < 15; round++) {
      const id = `x${round}`;
      const [spawned, torn] = await Promise.all([
        sandbox.spawn([id, '--', 'sh', '-c', script]),
        sandbox.teardown([id]),
      ]);
      expect(spawned, id).toMatchObject({ status: 0 });
      expect([0, 75], id).toContain(torn.status);
      const removed = torn.stderr.includes('removed');
      expect((await sandbox.record(id)) === undefined, id).toBe(removed);
      expect(
        readdirSync(sandbox.base).some((name) => name.endsWith(`-${id}`)),
        id,
      ).toBe(!removed);
    }
  });
});

describe('A18 the root of an aborted spawn goes while the lock is held', () => {
  test('a spawn that waits meanwhile never adopts it, raced 200 times', async ({ sandbox }) => {
    const { home, base } = sandbox;
    await sandbox.finished('first');
    const second = { id: 'x', home, base, abortAt: 0, alive: false, do: 'spawn' } as const;
    await withRacers(async (aborting, waiting) => {
      for (let round = 0; round < 200; round++) {
        const id = `x${round}`;
        // Every one of its steps in turn: before and after the record, the root and gotmp were made.
        const abortAt = 1 + (round % 5);
        const [one, other] = await Promise.all([
          aborting.do({ ...second, id, abortAt }),
          waiting.do({ ...second, id }),
        ]);
        expect(['ABORTED', 'ok'], `${id} ${one.message}`).toContain(one.is);
        expect(other, id).toEqual({ is: 'ok', message: '' });
        const record = await sandbox.record(id);
        expect(record?.state, id).toBe('active');
        const root = record?.tasktmp as string;
        expect(String(lstatSync(root, { bigint: true }).ino), id).toBe(record?.tmp_ino);
        expect(readdirSync(root), id).toEqual(['gotmp']);
      }
    });
    expect(readdirSync(base)).toHaveLength(201);
  });

  test('a signal to the group at any moment, as commands', async ({ sandbox }) => {
    await sandbox.finished('first');
    for (let round = 0; round < 15; round++) {
      const id = `x${round}`;
      const first = sandbox.start('task-spawn', [id, '--', 'true'], { detached: true });
      const second = sandbox.spawn([id, '--lock-wait', '60', '--', 'sh', '-c', 'test -d "$GOTMPDIR"']);
      await new Promise((done) => setTimeout(done, 10 * round));
      try {
        process.kill(-(first.pid as number), 'SIGTERM');
      } catch {}
      const [, waited] = await Promise.all([first, second]);
      if (waited.status === 125) expect(waited.stderr, id).toContain('is taken: it is running');
      else expect(waited, id).toMatchObject({ status: 0, stderr: '' });
      const record = await sandbox.record(id);
      expect(record?.state, id).toBe('active');
      expect(String(lstatSync(record?.tasktmp as string, { bigint: true }).ino), id).toBe(record?.tmp_ino);
    }
  });
});

describe('A24 a busy lock', () => {
  test('makes spawn and teardown wait and then decide by the record; status never waits', async ({ sandbox }) => {
    await sandbox.finished('x');
    const lock = await acquireLock(sandbox.state('x.lock'), { ms: 0, beat: () => Promise.resolve() });
    const spawned = await sandbox.spawn(['--lock-wait', '0.2s', 'x', '--', 'true']);
    expect(spawned).toMatchObject({ status: 125 });
    expect(spawned.stderr).toMatch(/^task-spawn: the task x is locked: .*pid \d+.*--lock-wait$/);
    const torn = await sandbox.teardown(['--lock-wait', '0.2s', 'x']);
    expect(torn).toMatchObject({ status: 75 });
    expect(torn.stderr).toContain('is locked');
    expect((await sandbox.status()).tasks).toMatchObject([{ id: 'x', state: 'finished' }]);
    const waiting = sandbox.spawn(['--lock-wait', '60', 'x', '--', 'true']);
    const removing = sandbox.teardown(['--lock-wait', '60', 'x']);
    await until('both are there', () => processesWith(`FM_HOME=${sandbox.home}`).length >= 3);
    lock?.release({ unlink: false });
    expect(await waiting).toMatchObject({ status: 0 });
    expect((await removing).status).toSatisfy((status) => status === 0 || status === 75);
  });
});
