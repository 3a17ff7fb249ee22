import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, lstatSync, mkdirSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { expect, vi } from 'vitest';
import { acquireLock, type LockWait } from '../lib/lock.ts';
import { test } from './helpers/sandbox.ts';

/** Called once, after the next file was opened: what another process does between that and the lock. */
const meanwhile = vi.hoisted(() => ({ run: undefined as (() => void) | undefined }));
vi.mock('../lib/fs.ts', async (original) => {
  const real = await original<typeof import('../lib/fs.ts')>();
  return {
    ...real,
    openSync: (...args: Parameters<typeof real.openSync>) => {
      const fd = real.openSync(...args);
      const { run } = meanwhile;
      meanwhile.run = undefined;
      run?.();
      return fd;
    },
  };
});

const beat = () => Promise.resolve();
const now: LockWait = { ms: 0, beat };
const long: LockWait = { ms: 60_000, beat };

test('is exclusive, bounded, and free again when it is let go', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  const lock = await acquireLock(path, now);
  expect(lstatSync(path).mode & 0o777).toBe(0o600);
  const start = performance.now();
  expect(await acquireLock(path, { ms: 100, beat })).toBeUndefined();
  expect(performance.now() - start).toBeGreaterThanOrEqual(100);
  lock?.release({ unlink: false });
  const next = await acquireLock(path, now);
  next?.release({ unlink: true });
  expect(existsSync(path)).toBe(false);
});

test('is released by the kernel when its holder is killed', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  writeFileSync(path, '');
  const binding = createRequire(import.meta.url).resolve('fs-native-extensions');
  const script = `require(${JSON.stringify(binding)}).tryLock(require('fs').openSync(${JSON.stringify(path)}, 'r+')); console.log('locked'); setInterval(() => {}, 1000)`;
  const holder = spawn(process.execPath, ['-e', script], { stdio: ['ignore', 'pipe', 'inherit'] });
  await once(holder.stdout, 'data');
  expect(await acquireLock(path, now)).toBeUndefined();
  const waiting = acquireLock(path, long);
  holder.kill('SIGKILL');
  (await waiting)?.release({ unlink: true });
  expect(existsSync(path)).toBe(false);
});

test('a waiter whose file was unlinked by the holder locks the new one', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  for (let round = 0; round < 50; round++) {
    const lock = await acquireLock(path, now);
    const waiting = [acquireLock(path, long), acquireLock(path, long)];
    lock?.release({ unlink: true });
    const first = await Promise.race(waiting);
    // The one that has it holds the file that the path names now: nobody else gets it.
    expect(await acquireLock(path, now)).toBeUndefined();
    first?.release({ unlink: round % 2 === 0 });
    for (const other of await Promise.all(waiting)) if (other !== first) other?.release({ unlink: true });
  }
});

test('a file that its holder unlinked between our open and our lock is not the lock', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  for (const put of [() => {}, () => writeFileSync(path, '')]) {
    const holder = await acquireLock(path, now);
    meanwhile.run = () => {
      holder?.release({ unlink: true });
      put();
    };
    const lock = await acquireLock(path, now);
    expect(lock).toBeDefined();
    // What is held is what the path names: the next one finds it busy.
    expect(await acquireLock(path, now)).toBeUndefined();
    lock?.release({ unlink: true });
  }
});

test('a lock file that somebody put in the place of ours is not ours to unlink', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  const lock = await acquireLock(path, now);
  unlinkSync(path);
  writeFileSync(path, 'theirs');
  lock?.release({ unlink: true });
  expect(existsSync(path)).toBe(true);
});

test('a link, a directory or a missing folder at its path is refused, and a link not followed', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  symlinkSync(join(sandbox.path, 'target'), path);
  await expect(acquireLock(path, now)).rejects.toMatchObject({ code: 'IO', message: expect.stringContaining('ELOOP') });
  expect(existsSync(join(sandbox.path, 'target'))).toBe(false);
  const folder = join(sandbox.path, 'folder');
  mkdirSync(folder);
  await expect(acquireLock(folder, now)).rejects.toMatchObject({ code: 'IO' });
  await expect(acquireLock(join(sandbox.path, 'none/lock'), now)).rejects.toMatchObject({ code: 'IO' });
});

test('what the beat throws ends the waiting', async ({ sandbox }) => {
  const path = join(sandbox.path, 'lock');
  const lock = await acquireLock(path, now);
  await expect(acquireLock(path, { ms: 60_000, beat: () => Promise.reject(new Error('stop')) })).rejects.toThrow(
    'stop',
  );
  lock?.release({ unlink: true });
});
