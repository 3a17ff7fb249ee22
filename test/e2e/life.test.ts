/** The life of one temp root, end to end: acceptance A01 to A09 and A12, A13, A15. */
import { existsSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { describe, expect } from 'vitest';
import { test } from '../helpers/sandbox.ts';

describe('teardown of an ended task', () => {
  test('A01 removes the recorded root with gotmp and content', async ({ sandbox }) => {
    const root = await sandbox.finished('a', 'mkdir -p "$GOTMPDIR/b/c" && echo x > "$FM_TASK_TMP/file"');
    expect((await readdir(root)).sort()).toEqual(['file', 'gotmp']);
    const { status, stderr } = await sandbox.teardown(['a']);
    expect(status).toBe(0);
    expect(stderr).toContain(`removed ${root} (5 entries`);
    expect(existsSync(root)).toBe(false);
    expect(await sandbox.record('a')).toBeUndefined();
    expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
  });
});
