import { expect, test } from 'vitest';
import { TaskError } from '../lib/errors.ts';

test('a TaskError of another bundle is one, a class of its own is not every one', () => {
  class Twin extends Error {
    override name = 'TaskError';
  }
  class Special extends TaskError {}
  expect(new Twin() instanceof TaskError).toBe(true);
  expect(new Error('x') instanceof TaskError).toBe(false);
  expect(new Special('BUSY', 'x') instanceof TaskError).toBe(true);
  expect(new Special('BUSY', 'x') instanceof Special).toBe(true);
  expect(new TaskError('BUSY', 'x') instanceof Special).toBe(false);
});
