/** The table of Linux against real processes: cases B83, B89; bounded reads, reused pids. */
import { execa } from 'execa';
import { describe, expect, test } from 'vitest';
import { readMemory } from '../lib/proc-table.ts';
import { readProcessTable } from '../lib/process-table.ts';
import { signalProcess } from '../lib/processes.ts';
import { stateOf } from './helpers/tasks.ts';
import { until } from './helpers/until.ts';

/** A sleep with an environment of its own. */
async function withSleep(env: Record<string, string>, use: (pid: number) => void | Promise<void>): Promise<void> {
  const child = execa('sleep', ['1000'], { reject: false, extendEnv: false, env: { PATH: process.env.PATH, ...env } });
  try {
    const pid = child.pid as number;
    await until('it is sleep', () => readProcessTable().get(pid)?.name === 'sleep');
    await use(pid);
  } finally {
    child.kill('SIGKILL');
    await child;
  }
}

const A = 'a'.repeat(32);
const B = 'b'.repeat(32);

describe('tokens', () => {
  test.each([
    ['its own', { FM_TASK_TOKEN: A }, [A], []],
    ['its own and the outer one', { FM_TASK_TOKEN: A, FM_TASK_PARENT: B }, [A], [B]],
    ['none', {}, undefined, undefined],
    ['an empty one', { FM_TASK_TOKEN: '' }, undefined, undefined],
    ['a value that quotes one', { X: `1 FM_TASK_TOKEN=${A}`, Y: `\nFM_TASK_TOKEN=${A}` }, undefined, undefined],
    ['a longer name', { XFM_TASK_TOKEN: A, FM_TASK_TOKEN_: A, FM_TASK_TOKENS: A }, undefined, undefined],
    [
      'behind a megabyte',
      Object.fromEntries([...Array(10).keys()].map((n) => [`V${n}`, 'x'.repeat(100_000)])),
      'late',
      [],
    ],
  ] as const)('%s', async (_, env, own, parent) => {
    const late = own === 'late';
    await withSleep(late ? { ...env, FM_TASK_TOKEN: A } : env, (pid) => {
      const table = readProcessTable();
      expect(table.tokensOf(pid)).toEqual(own === undefined ? undefined : { own: late ? [A] : own, parent });
      expect(table.withToken(A).includes(pid)).toBe(own !== undefined);
    });
  });
});

test('of a process whose first thread ended while others run on they are read from another thread', async () => {
  const program = `import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[os.uname().machine], 0)`;
  const child = execa('python3', ['-c', program], { reject: false, env: { FM_TASK_TOKEN: A } });
  const pid = child.pid as number;
  try {
    await until('its first thread ended', () => stateOf(pid) === 'Z');
    const table = readProcessTable();
    expect(table.get(pid)).toMatchObject({ dead: false });
    expect(table.withToken(A)).toContain(pid);
  } finally {
    child.kill('SIGKILL');
    await child;
  }
});

test('what is asked for on demand', async () => {
  await withSleep({}, (pid) => {
    const table = readProcessTable();
    expect(table.get(pid)).toMatchObject({ pid, ppid: process.pid, name: 'sleep', dead: false, kernel: false });
    expect(table.argv(pid)).toEqual(['sleep', '1000']);
    expect(table.uidOf(pid)).toBe(process.geteuid?.());
    expect(table.sharesMounts(pid)).toBe(true);
    expect(table.visitors(process.cwd()).get(pid)).toBe('cwd');
    expect(table.visitors('/nowhere').size).toBe(0);
    expect(table.stdio(pid)[0]).toMatch(/^(pipe|socket):/);
    expect(readMemory(pid)).toBeGreaterThan(0);
  });
});

test('B06 a process that is gone says nothing, and throws nothing', async () => {
  const table = readProcessTable();
  const child = execa('true');
  const pid = child.pid as number;
  await child;
  expect([table.get(pid), table.uidOf(pid), table.tokensOf(pid), table.argv(pid)]).toEqual([
    undefined,
    undefined,
    undefined,
    [],
  ]);
  expect([table.stdio(pid), table.sharesMounts(pid), readMemory(pid)]).toEqual([['', '', ''], false, undefined]);
});

describe('signalProcess', () => {
  test('B02 B89 proves the start time, and never signals a group or pid 1', async () => {
    await withSleep({}, (pid) => {
      const start = readProcessTable().get(pid)?.start as string;
      expect(signalProcess({ pid, start: `${Number(start) + 1}` }, 'SIGKILL')).toBe('gone');
      for (const none of [0, 1, -1, -pid, 1.5, Number.NaN]) {
        expect(signalProcess({ pid: none, start }, 'SIGKILL')).toBe('denied');
      }
      expect(signalProcess({ pid, start }, 'SIGCONT')).toBe('sent');
      expect(readProcessTable().get(pid)?.dead).toBe(false);
    });
  });
});
