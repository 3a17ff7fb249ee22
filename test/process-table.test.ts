/** The table of Linux against real processes: cases B83, B89; bounded reads, reused pids. */
import { lstatSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import { dir } from 'tmp-promise';
import { describe, expect, test } from 'vitest';
import { readMemory } from '../lib/proc-read.ts';
import { readProcessTable } from '../lib/process-table.ts';
import { signalProcess } from '../lib/processes.ts';
import { which } from './helpers/shells.ts';
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

test.runIf(which('flock')).each([
  ['a shared lock on it is the hold', '-s', true],
  ['an exclusive one is somebody else’s', '-x', false],
])('of a root: %s', async (_, kind, isHold) => {
  const { path, cleanup } = await dir({ tmpdir: '/tmp', prefix: 'ts' });
  const { dev, ino, birthtimeNs } = lstatSync(path, { bigint: true });
  const identity = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
  const script = `exec 9<"$1"; flock ${kind} 9; exec sleep 1000`;
  const child = execa('sh', ['-c', script, 'sh', path], { reject: false });
  try {
    const pid = child.pid as number;
    await until('it is sleep', () => readProcessTable().get(pid)?.name === 'sleep');
    expect(readProcessTable().holders({ path, identity }).includes(pid)).toBe(isHold);
  } finally {
    child.kill('SIGKILL');
    await child;
    await cleanup();
  }
});

test('a name is what its bytes say in UTF-8', async () => {
  const { path, cleanup } = await dir({ tmpdir: '/tmp', prefix: 'ts', unsafeCleanup: true });
  const program = join(path, 'café');
  symlinkSync('/bin/sleep', program);
  const child = execa(program, ['1000'], { reject: false });
  try {
    const pid = child.pid as number;
    await until('it has its name', () => readProcessTable().get(pid)?.name === 'café');
    expect(readProcessTable().argv(pid)).toEqual([program, '1000']);
  } finally {
    child.kill('SIGKILL');
    await child;
    await cleanup();
  }
});
