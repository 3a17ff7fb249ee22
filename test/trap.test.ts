import { expect, test } from 'vitest';
import { AbortTrap } from '../lib/trap.ts';

/** Sends a real signal to this process and waits for a turn in which it is heard. */
async function hear(trap: AbortTrap, signal: NodeJS.Signals): Promise<unknown> {
  let heard = 0;
  const count = () => heard++;
  process.on(signal, count);
  try {
    process.kill(process.pid, signal);
    for (;;) {
      try {
        await trap.beat();
      } catch (error) {
        return error;
      }
      if (heard > 0) return undefined;
    }
  } finally {
    process.off(signal, count);
  }
}

test('what was armed is taken back once, last first, and not after the launch is published', async () => {
  const done: number[] = [];
  const trap = new AbortTrap(() => false);
  for (const step of [1, 2, 3]) trap.arm(() => done.push(step));
  await trap.rollback();
  await trap.rollback();
  expect(done).toEqual([3, 2, 1]);
  trap.arm(() => done.push(4));
  trap.disarm();
  await trap.rollback();
  expect(done).toEqual([3, 2, 1]);
});

test('an undo that fails is the last one that runs', async () => {
  const done: number[] = [];
  const trap = new AbortTrap(() => false);
  trap.arm(() => done.push(1));
  trap.arm(() => {
    throw new Error('no');
  });
  await expect(trap.rollback()).rejects.toThrow('no');
  expect(done).toEqual([]);
});

test('the end of the launching shell ends the spawn', async () => {
  let gone = false;
  const trap = new AbortTrap(() => gone);
  await trap.beat();
  gone = true;
  await expect(trap.beat()).rejects.toMatchObject({
    code: 'ABORTED',
    message: expect.stringContaining('shell is gone'),
  });
});

test.for(['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const)(
  '%s is heard at the next step, and stays',
  async (signal) => {
    const trap = new AbortTrap(() => false);
    const before = process.listenerCount(signal);
    trap.listen();
    try {
      expect(trap.signalled).toBe(false);
      expect(await hear(trap, signal)).toMatchObject({ code: 'ABORTED', message: expect.stringContaining(signal) });
      expect(trap.signalled).toBe(true);
      await expect(trap.beat()).rejects.toMatchObject({ code: 'ABORTED' });
    } finally {
      trap.unlisten();
    }
    expect(process.listenerCount(signal)).toBe(before);
  },
);

test('E05 a signal that the caller ignores is caught and means nothing, also after the last step', async () => {
  const trap = new AbortTrap(() => false, new Set(['SIGHUP']));
  const before = process.listeners('SIGHUP');
  trap.listen();
  try {
    expect(await hear(trap, 'SIGHUP')).toBeUndefined();
    expect(trap.signalled).toBe(false);
    trap.unlisten();
    expect(process.listenerCount('SIGHUP')).toBe(before.length + 1);
  } finally {
    for (const listener of process.listeners('SIGHUP')) if (!before.includes(listener)) process.off('SIGHUP', listener);
  }
});
