/** When a reaping ends: two looks in a row that find nothing (design section 10, case B84). */
import { expect, test, vi } from 'vitest';
import type { Home } from '../lib/home.ts';
import type { ProcessReport } from '../lib/reap-report.ts';
import { type Row, TARGET, tableOf } from './helpers/rows.ts';

const looks = vi.hoisted(() => ({ left: [] as unknown[][] }));

vi.mock('../lib/process-table.ts', () => ({ readProcessTable: () => tableOf((looks.left.shift() ?? []) as Row[]) }));
vi.mock('../lib/processes.ts', () => ({ signalProcess: () => 'sent', probeProcess: () => 'dead' }));

test('what a first look missed is ended by the second, and after an end it is looked twice again', async () => {
  const { reapTask } = await import('../lib/reap.ts');
  const leak = (pid: number) => [{ pid, own: 'task' }];
  looks.left = [[], leak(101), [], leak(102), [], []];
  const ended: number[] = [];
  const context = {
    home: { config: '/nowhere' } as Home,
    stop: () => false,
    onProcess: ({ pid }: ProcessReport) => ended.push(pid),
  };
  expect(await reapTask(context, 'a', TARGET)).toBe(true);
  expect(ended).toEqual([101, 102]);
  expect(looks.left).toEqual([]);
});
