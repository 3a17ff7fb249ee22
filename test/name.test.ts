import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { nameTask } from '../lib/name.ts';
import { isTaskId } from '../lib/paths.ts';

describe('nameTask', () => {
  it('gives an id for any command', () => {
    fc.assert(fc.property(fc.string({ unit: 'binary', maxLength: 200 }), (command) => isTaskId(nameTask(command))));
  });

  it('keeps the name readable', () => {
    expect(nameTask('/usr/local/bin/claude')).toMatch(/^claude-[0-9a-f]{4}$/);
    expect(nameTask('./my tool.sh')).toMatch(/^my-tool-sh-[0-9a-f]{4}$/);
    expect(nameTask('...')).toMatch(/^task-[0-9a-f]{4}$/);
  });

  it('gives two calls two ids', () => {
    expect(new Set(Array.from({ length: 20 }, () => nameTask('x'))).size).toBeGreaterThan(15);
  });
});
