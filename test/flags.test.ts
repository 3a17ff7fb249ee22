import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { hasFlag } from '../lib/flags.ts';
import type { Home } from '../lib/home.ts';
import { isRoot, NOBODY, type Sandbox, test } from './helpers/sandbox.ts';

function homeOf(sandbox: Sandbox): Home {
  const config = join(sandbox.path, 'config');
  return { path: sandbox.path, config, state: join(sandbox.path, 'state'), uid: 0, tag: '01234567' };
}

test('a file, also an empty one, and a link to one are on; a directory, a dangling link and nothing are off', ({
  sandbox,
}) => {
  const home = homeOf(sandbox);
  expect(hasFlag(home, 'none')).toBe(false);
  mkdirSync(home.config);
  const at = (name: string) => join(home.config, name);
  writeFileSync(at('file'), '');
  writeFileSync(at('off'), 'off\n0\nfalse\n');
  symlinkSync('file', at('link'));
  symlinkSync('nowhere', at('dangling'));
  mkdirSync(at('folder'));
  symlinkSync('folder', at('folder-link'));
  const found = ['file', 'off', 'link', 'dangling', 'folder', 'folder-link', 'none'].map((name) => hasFlag(home, name));
  expect(found).toEqual([true, true, true, false, false, false, false]);
});

test('a config that is a file holds no flags', ({ sandbox }) => {
  const home = homeOf(sandbox);
  writeFileSync(home.config, '');
  expect(hasFlag(home, 'flag')).toBe(false);
});

test('one that cannot be looked at is an error, never off', ({ sandbox }) => {
  const home = homeOf(sandbox);
  mkdirSync(home.config);
  symlinkSync('loop', join(home.config, 'loop'));
  expect(() => hasFlag(home, 'loop')).toThrow(
    expect.objectContaining({ code: 'CONFIG', message: expect.stringContaining('ELOOP') }),
  );
});

test.skipIf(!isRoot)('as a command of a normal user: an unreadable config stops the spawn', async ({ sandbox }) => {
  await sandbox.giveTo(NOBODY);
  const options = { uid: NOBODY };
  expect(await sandbox.spawn(['x', '--', 'sh', '-c', 'mkdir -m 0 "$FM_HOME/config"'], options)).toMatchObject({
    status: 0,
  });
  const { status, stderr } = await sandbox.spawn(['y', '--', 'true'], options);
  expect({ status, stderr }).toEqual({
    status: 125,
    stderr: expect.stringContaining('config/task-tmpdir-pin cannot be looked at'),
  });
  // Who says what is wanted needs no flag, but the narrow pins are still to be read.
  expect(await sandbox.spawn(['--no-pin', 'y', '--', 'true'], options)).toMatchObject({
    status: 125,
    stderr: expect.stringContaining('config/tmpdir-vars cannot be read'),
  });
});
