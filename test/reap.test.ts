/** The loop of a reaping where no signal has an effect: B05. */
import { existsSync, readFileSync } from 'node:fs';
import { expect, vi } from 'vitest';
import { teardownTask } from '../lib/library.ts';
import type * as Processes from '../lib/processes.ts';
import type { ProcessReport } from '../lib/reap-report.ts';
import { test } from './helpers/sandbox.ts';
import { isAlive } from './helpers/tasks.ts';
import { awaitSleep, ownSleep, QUIET, sleepers } from './helpers/zoo.ts';

const signals = vi.hoisted(() => ({ sent: [] as string[], real: false }));

vi.mock('../lib/processes.ts', async (original) => {
  const real = await original<typeof Processes>();
  return {
    ...real,
    signalProcess: (process: Parameters<typeof real.signalProcess>[0], name: NodeJS.Signals) => {
      signals.sent.push(name);
      return signals.real ? real.signalProcess(process, name) : 'sent';
    },
  };
});

test('B05 what survives: SURVIVED (69), named, and root and record stay byte for byte', async ({ sandbox }) => {
  const leak = ownSleep();
  const root = await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
  const pid = await awaitSleep(leak);
  const record = readFileSync(sandbox.state('a.meta'));
  const reports: ProcessReport[] = [];
  const settings = { home: sandbox.home, graceMs: 50, onProcess: (report: ProcessReport) => reports.push(report) };
  await expect(teardownTask('a', settings)).rejects.toMatchObject({
    code: 'SURVIVED',
    message: expect.stringContaining(`${pid} (sleep)`),
  });
  expect(signals.sent).toEqual(['SIGTERM', 'SIGCONT', 'SIGKILL']);
  expect(reports).toEqual([
    { pid, command: 'sleep', evidence: ['token', 'hold'], action: 'survived', durationMs: expect.any(Number) },
  ]);
  expect([isAlive(pid), existsSync(root)]).toEqual([true, true]);
  expect(readFileSync(sandbox.state('a.meta'))).toEqual(record);
  // Nothing is in the way of the next one.
  signals.real = true;
  expect(await teardownTask('a', settings)).toMatchObject({ is: 'removed' });
  expect([sleepers(leak), existsSync(root)]).toEqual([[], false]);
});

test('told to stop, it stops between two looks: BUSY, and no further signal', async ({ sandbox }) => {
  const leak = ownSleep();
  signals.real = false;
  signals.sent = [];
  const root = await sandbox.finished('a', `setsid ${leak.line} ${QUIET} &`);
  const pid = await awaitSleep(leak);
  const { endAll } = await import('../lib/reap.ts');
  const { readProcess } = await import('../lib/processes.ts');
  const found = readProcess(pid);
  if (typeof found === 'string') throw new Error(found);
  const judgement = { process: found, evidence: ['token'], verdict: 'end', reason: '', remedy: '' } as const;
  await expect(endAll({ stop: () => true }, 'a', [judgement], 1000)).rejects.toMatchObject({ code: 'BUSY' });
  expect(signals.sent).toEqual(['SIGTERM', 'SIGCONT']);
  signals.real = true;
  expect(await teardownTask('a', { home: sandbox.home })).toMatchObject({ is: 'removed', root });
});
