/** One look at the processes serves all tasks of a listing. */
import { expect, vi } from 'vitest';
import { listTasks } from '../lib/library.ts';
import type * as Table from '../lib/process-table.ts';
import { test } from './helpers/sandbox.ts';

const looks = vi.hoisted(() => ({ count: 0 }));

vi.mock('../lib/process-table.ts', async (original) => {
  const real = await original<typeof Table>();
  return {
    ...real,
    readProcessTable: () => {
      looks.count++;
      return real.readProcessTable();
    },
  };
});

test('listTasks looks once, however many tasks there are, and not at all where there is none', async ({ sandbox }) => {
  for (const id of ['a', 'b', 'c']) await sandbox.finished(id);
  expect(listTasks({ home: sandbox.home }).tasks).toHaveLength(3);
  expect(looks.count).toBe(1);
  for (const id of ['a', 'b', 'c']) await sandbox.teardown([id]);
  expect(listTasks({ home: sandbox.home }).tasks).toEqual([]);
  expect(looks.count).toBe(1);
});
