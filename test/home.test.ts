import { mkdirSync, readdirSync, readFileSync, unlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { openHome } from '../lib/home.ts';
import { makeHome } from '../lib/home-make.ts';
import { acquireLock } from '../lib/lock.ts';
import { homePaths } from '../lib/paths.ts';
import { test } from './helpers/sandbox.ts';

const uid = process.geteuid?.() ?? 0;
const wait = { ms: 0, beat: () => Promise.resolve() };

/** Called when a folder is listed: what another process does just then. */
const meanwhile = vi.hoisted(() => ({ run: undefined as (() => void) | undefined }));
vi.mock('../lib/fs.ts', async (original) => {
  const real = await original<typeof import('../lib/fs.ts')>();
  return {
    ...real,
    readdirSync: (path: string) => {
      meanwhile.run?.();
      return real.readdirSync(path);
    },
  };
});

test('is made once; what a killed maker left is taken away', async ({ sandbox }) => {
  const setting = { path: sandbox.home, source: 'FM_HOME' };
  const { state, homeId, homeIdStaging } = homePaths(sandbox.home);
  mkdirSync(state, { recursive: true, mode: 0o700 });
  writeFileSync(homeIdStaging, 'half of');
  expect(openHome(setting, uid, true)).toBeUndefined();
  await makeHome(setting, uid, wait);
  expect(readdirSync(state)).toEqual(['home-id']);
  const id = readFileSync(homeId, 'latin1');
  await makeHome(setting, uid, wait);
  expect(readFileSync(homeId, 'latin1')).toBe(id);
  expect(openHome(setting, uid, true)).toMatchObject({
    path: sandbox.home,
    tag: expect.stringMatching(/^[0-9a-f]{8}$/),
  });
});

test('is waited for while another makes it', async ({ sandbox }) => {
  const setting = { path: sandbox.home, source: 'FM_HOME' };
  const { state, homeLock } = homePaths(sandbox.home);
  mkdirSync(state, { recursive: true, mode: 0o700 });
  const lock = await acquireLock(homeLock, wait);
  await expect(makeHome(setting, uid, wait)).rejects.toMatchObject({ code: 'BUSY' });
  lock?.release({ unlink: true });
  await makeHome(setting, uid, wait);
});

test('of which another spawn makes home-id and a first record just now is not taken for a damaged one', async ({
  sandbox,
}) => {
  const setting = { path: sandbox.home, source: 'FM_HOME' };
  await makeHome(setting, uid, wait);
  const { state, homeId } = homePaths(sandbox.home);
  const id = readFileSync(homeId);
  unlinkSync(homeId);
  meanwhile.run = () => {
    writeFileSync(homeId, id);
    writeFileSync(join(state, 'x.meta'), 'schema=1\n');
  };
  try {
    expect(() => openHome(setting, uid, true)).not.toThrow();
  } finally {
    meanwhile.run = undefined;
  }
});
