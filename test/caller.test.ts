import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { expect, test } from 'vitest';
import { ignoredSignals, rawArguments, rawEnvironments, rawVariable, toLatin1 } from '../lib/caller.ts';
import { proc } from './helpers/planner.ts';
import { until } from './helpers/until.ts';

test('text becomes one character for one byte', () => {
  expect(toLatin1('ü')).toBe('\xc3\xbc');
});

test.skipIf(process.platform !== 'linux')('the last arguments of this process are those the kernel has', () => {
  const all = proc(process.pid, 'cmdline').split('\0').slice(0, -1);
  expect(rawArguments(1)).toEqual(all.slice(-1));
  expect(rawArguments(0)).toEqual([]);
});

test('a variable is that of the start, or what Node has', () => {
  expect(rawVariable('PATH')).toBe(toLatin1(process.env.PATH as string));
  process.env.TASK_SPAWN_TEST_LATER = 'ü';
  expect(rawVariable('TASK_SPAWN_TEST_LATER')).toBe('\xc3\xbc');
  delete process.env.TASK_SPAWN_TEST_LATER;
  expect(rawVariable('TASK_SPAWN_TEST_LATER')).toBeUndefined();
});

test.skipIf(process.platform !== 'linux')('E05 E10 another process: its environment and what it ignores', async () => {
  const script = "trap '' HUP INT; exec sleep 600";
  const child = spawn('sh', ['-c', script], { env: { PATH: process.env.PATH, A: 'b=c' }, stdio: 'ignore' });
  const pid = child.pid as number;
  try {
    await until('it sleeps', () => proc(pid, 'comm') === 'sleep\n');
    expect(rawEnvironments(pid)?.given).toContain('A=b=c');
    const ignored = ignoredSignals(pid);
    expect([ignored.has('SIGHUP'), ignored.has('SIGINT'), ignored.has('SIGTERM')]).toEqual([true, true, false]);
  } finally {
    child.kill('SIGKILL');
    await once(child, 'exit');
  }
  expect(rawEnvironments(pid)).toBeUndefined();
  expect(ignoredSignals(pid)).toEqual(new Set());
});
