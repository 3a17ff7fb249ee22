/** Ending a recorded process and no other: B02, case B89. */
import { execa } from 'execa';
import { describe, expect, test } from 'vitest';
import { endTask, waitForEnd } from '../lib/end.ts';
import type { Home } from '../lib/home.ts';
import { readProcess } from '../lib/processes.ts';
import type { TaskRecord } from '../lib/record.ts';
import { isAlive } from './helpers/tasks.ts';

const home: Home = { path: '/nowhere', config: '/nowhere/config', state: '/nowhere/state', uid: 0, tag: '01234567' };
const context = { home, stop: () => false, beat: async () => {} };

async function withSleep(use: (pid: number, start: string) => Promise<void>): Promise<string | undefined> {
  const child = execa('sleep', ['1000'], { reject: false });
  const found = readProcess(child.pid as number);
  if (typeof found === 'string') throw new Error(found);
  await use(found.pid, found.start);
  child.kill('SIGINT');
  return (await child).signal;
}

const recordOf = (pid: number, pid_start: string) =>
  ({
    id: 'a',
    token: 'f'.repeat(32),
    command: '"sleep"',
    tty_nr: '0',
    tmp_ino: '',
    pid: String(pid),
    pid_start,
  }) as unknown as TaskRecord;

describe('endTask', () => {
  test('TERM for the recorded process', async () => {
    const signal = await withSleep(async (pid, start) => {
      await endTask(recordOf(pid, start), 60_000, context);
      expect(isAlive(pid)).toBe(false);
    });
    expect(signal).toBe('SIGTERM');
  });

  test('B02 nothing at all for a process with the same pid and another start', async () => {
    const signal = await withSleep(async (pid, start) => {
      await endTask(recordOf(pid, `${Number(start) + 1}`), 0, context);
      expect(isAlive(pid)).toBe(true);
    });
    expect(signal).toBe('SIGINT');
  });

  test('ourselves and what we run in are refused', async () => {
    for (const pid of [process.pid, process.ppid]) {
      const found = readProcess(pid);
      const start = typeof found === 'string' ? '' : found.start;
      await expect(endTask(recordOf(pid, start), 0, context)).rejects.toMatchObject({ code: 'BUSY' });
    }
  });
});

describe('waitForEnd', () => {
  test('B88 gives up in time, and at once when told to', async () => {
    await withSleep(async (pid, start) => {
      await expect(waitForEnd(recordOf(pid, start), 30, context)).rejects.toMatchObject({ code: 'BUSY' });
      const beat = async () => {
        throw new Error('told to');
      };
      await expect(waitForEnd(recordOf(pid, start), Number.POSITIVE_INFINITY, { beat })).rejects.toThrow('told to');
      await waitForEnd(recordOf(pid, '1'), Number.POSITIVE_INFINITY, context);
    });
  });
});
