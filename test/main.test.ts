import { expect, test } from 'vitest';
import { TaskError } from '../lib/errors.ts';
import { assertNode, describeError, statusOf } from '../lib/main.ts';

test('the oldest Node is 20.19', () => {
  for (const version of ['20.19.0', '20.20.1', '22.0.0', '100.1.0']) assertNode(version);
  for (const version of ['20.18.9', '18.20.4', '4.9.1', '0.12.18']) {
    expect(() => assertNode(version)).toThrow(
      expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining(version) }),
    );
  }
});

test('an error is one line; only what nobody foresaw is called a bug', () => {
  expect(describeError(new TaskError('IO', 'a\n  b'))).toBe('a b');
  expect(describeError(Object.assign(new Error('EIO: i/o error'), { code: 'EIO' }))).toBe('EIO: i/o error');
  expect(describeError(new TypeError('x'))).toBe('a bug of task-spawn: x; please report it');
  expect(describeError('text')).toContain('text');
});

test('each error has the status of its command', () => {
  expect(statusOf('task-spawn', new TaskError('BUSY', ''))).toBe(125);
  expect(statusOf('task-teardown', new TaskError('BUSY', ''))).toBe(75);
  expect(statusOf('task-spawn', new TaskError('COMMAND_NOT_FOUND', ''))).toBe(127);
  expect(statusOf('task-spawn', new TaskError('COMMAND_NOT_RUNNABLE', ''))).toBe(126);
  const errno = Object.assign(new Error(), { code: 'ENOSPC' });
  expect([statusOf('task-spawn', errno), statusOf('task-teardown', errno)]).toEqual([125, 74]);
  expect([statusOf('task-spawn', new TypeError()), statusOf('task-status', new TypeError())]).toEqual([125, 70]);
});
