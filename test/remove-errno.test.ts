/** What removeTree does about errors that no test can have the kernel give: put into the one module that calls it. */
import { existsSync, lstatSync, mkdirSync, readdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, describe, expect, vi } from 'vitest';
import type * as Fs from '../lib/fs.ts';
import { removeTree } from '../lib/remove.ts';
import { test } from './helpers/sandbox.ts';

type Call = (typeof CALLS)[number];
/** Called before a call with the last part of its path; what it gives is thrown. */
type Fault = (call: Call, name: string) => string | undefined;

const { fault, CALLS } = vi.hoisted(() => ({
  fault: { now: undefined as unknown },
  CALLS: ['lstatSync', 'unlinkSync', 'rmdirSync', 'openSync', 'readdirSync', 'statfsSync'] as const,
}));

vi.mock('../lib/fs.ts', async (original) => {
  const real = await original<typeof Fs>();
  const wrap = (call: Call) =>
    ((path: unknown, ...rest: unknown[]) => {
      const code = (fault.now as Fault | undefined)?.(call, String(path).split('/').pop() as string);
      if (code) throw Object.assign(new Error(`${code}: put in`), { code });
      return (real[call as keyof typeof Fs] as (...args: unknown[]) => unknown)(path, ...rest);
    }) as never;
  return { ...real, ...Object.fromEntries(CALLS.map((call) => [call, wrap(call)])) };
});

afterEach(() => {
  fault.now = undefined;
});

function plant(root: string): string {
  mkdirSync(join(root, 'full', 'sub'), { recursive: true });
  mkdirSync(join(root, 'empty'));
  for (const name of ['file', 'full/a', 'full/sub/b']) writeFileSync(join(root, name), '');
  return root;
}

async function remove(root: string, put: Fault) {
  const { dev, ino, birthtimeNs } = lstatSync(root, { bigint: true });
  const identity = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
  fault.now = put;
  return removeTree(root, identity, { uid: process.geteuid?.() ?? 0, stop: () => false });
}

const at =
  (where: Call, what: string, code: string): Fault =>
  (call, name) =>
    call === where && name === what ? code : undefined;

describe('an error at one entry keeps that entry, says why, and the rest goes', () => {
  for (const [call, name, code, reason, left] of [
    ['unlinkSync', 'a', 'EPERM', /immutable, append-only/, ['full']],
    ['unlinkSync', 'a', 'EACCES', /permission denied/, ['full']],
    ['unlinkSync', 'a', 'EROFS', /read-only file system/, ['full']],
    ['unlinkSync', 'a', 'EBUSY', /mount point/, ['full']],
    ['unlinkSync', 'a', 'EIO', /^EIO$/, ['full']],
    ['rmdirSync', 'empty', 'EBUSY', /mount point/, ['empty']],
    ['rmdirSync', 'empty', 'EPERM', /immutable/, ['empty']],
    ['rmdirSync', 'empty', 'EACCES', /permission denied/, ['empty']],
    ['rmdirSync', 'empty', 'EROFS', /read-only/, ['empty']],
    ['rmdirSync', 'empty', 'EIO', /^EIO$/, ['empty']],
    ['rmdirSync', 'empty', 'ENOTEMPTY', /keeps writing/, ['empty']],
    ['rmdirSync', 'empty', 'EEXIST', /keeps writing/, ['empty']],
    ['openSync', 'full', 'EIO', /^EIO$/, ['full']],
    ['openSync', 'full', 'ENOTCONN', /^ENOTCONN$/, ['full']],
    ['openSync', 'full', 'EMFILE', /^EMFILE$/, ['full']],
  ] as const) {
    test(`${code} of ${call} at "${name}"`, async ({ sandbox }) => {
      const root = plant(join(sandbox.base, 'root'));
      const removal = await remove(root, at(call, name, code));
      expect(removal).toMatchObject({ keptCount: 1, stopped: false });
      expect(removal.kept[0]?.reason).toMatch(reason);
      expect(readdirSync(root)).toEqual(left);
    });
  }

  test('EIO in reading a folder: the folder is kept and named', async ({ sandbox }) => {
    const root = plant(join(sandbox.base, 'root'));
    // Every listing but the root's.
    let listings = 0;
    const removal = await remove(root, (call) => (call === 'readdirSync' && ++listings > 1 ? 'EIO' : undefined));
    expect(removal.kept).toEqual([{ path: join(root, 'full'), reason: 'EIO' }]);
    expect(readdirSync(root)).toEqual(['full']);
  });

  test('an entry whose size cannot be read goes all the same', async ({ sandbox }) => {
    const root = plant(join(sandbox.base, 'root'));
    expect(await remove(root, at('lstatSync', 'a', 'EIO'))).toMatchObject({ entries: 7, keptCount: 0 });
    expect(existsSync(root)).toBe(false);
  });

  test('large folders go where the file system cannot be asked, and many names are held of one at a time', async ({
    sandbox,
  }) => {
    const root = join(sandbox.base, 'root');
    const large = (path: string) => {
      mkdirSync(path);
      for (let index = 0; index < 4000; index++) writeFileSync(join(path, `${'name'.repeat(8)}${index}`), '');
    };
    large(root);
    large(join(root, 'sub'));
    const asked = new Set<string>();
    const removal = await remove(root, (call, name) => {
      if (call !== 'statfsSync') return undefined;
      // What is not a descriptor is asked for the free space.
      if (/^\d+$/.test(name)) asked.add(name);
      return 'EIO';
    });
    expect(removal).toMatchObject({ entries: 8002, keptCount: 0 });
    expect(asked.size).toBe(1);
  });

  test('what is kept is listed by name up to a number, and counted', async ({ sandbox }) => {
    const root = join(sandbox.base, 'root');
    mkdirSync(root);
    for (let index = 0; index < 50; index++) writeFileSync(join(root, `f${index}`), '');
    const removal = await remove(root, (call) => (call === 'unlinkSync' ? 'EPERM' : undefined));
    expect(removal).toMatchObject({ entries: 0, keptCount: 50 });
    expect(removal.kept).toHaveLength(20);
  });
});

describe('what changes under its hands', () => {
  test('ENOENT of any call is done, and what is still there goes on the next walk or is told', async ({ sandbox }) => {
    for (const call of ['lstatSync', 'unlinkSync', 'rmdirSync', 'openSync'] as const) {
      const root = plant(join(sandbox.base, 'root'));
      const isDone = new Set<string>();
      const removal = await remove(root, (each, name) => {
        if (each !== call || name === 'root' || isDone.has(name)) return undefined;
        isDone.add(name);
        return 'ENOENT';
      });
      expect({ call, isDone: isDone.size > 0, ...removal }).toMatchObject({ call, isDone: true, keptCount: 0 });
      expect(existsSync(root)).toBe(false);
    }
  });

  test('a file that became a folder, and a folder that became a file, go as what they are', async ({ sandbox }) => {
    const root = plant(join(sandbox.base, 'root'));
    const once = new Set<string>();
    const removal = await remove(root, (call, name) => {
      if (once.has(call)) return undefined;
      if (call === 'rmdirSync' && name === 'empty') {
        once.add(call);
        return 'ENOTDIR';
      }
      return undefined;
    });
    expect(removal.keptCount).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  test('B09 a file made anew before each rmdir: so many tries and no more', async ({ sandbox }) => {
    const root = plant(join(sandbox.base, 'root'));
    let tries = 0;
    const removal = await remove(root, (call, name) => {
      if (call !== 'rmdirSync' || name !== 'full') return undefined;
      tries++;
      writeFileSync(join(root, 'full', `new${tries}`), '');
      return undefined;
    });
    expect(removal.kept).toEqual([{ path: join(root, 'full'), reason: expect.stringContaining('keeps writing') }]);
    // Once before it is opened, once after that, and once after each walk.
    expect(tries).toBe(6);
  });

  test('a file made anew once goes too', async ({ sandbox }) => {
    const root = plant(join(sandbox.base, 'root'));
    let tries = 0;
    const removal = await remove(root, (call, name) => {
      if (call === 'rmdirSync' && name === 'full' && ++tries === 3) writeFileSync(join(root, 'full', 'late'), '');
      return undefined;
    });
    expect(removal.keptCount).toBe(0);
    expect(existsSync(root)).toBe(false);
  });

  test('a folder moved away while what is deep in it is removed: it stops instead of going on elsewhere', async ({
    sandbox,
  }) => {
    const root = join(sandbox.base, 'root');
    const names = Array.from({ length: 40 }, (_, index) => `d${index}`);
    mkdirSync(join(root, ...names), { recursive: true });
    // Far down, so that a walk that went on upwards would still end within the sandbox.
    const other = join(sandbox.path, 'o', 't', 'h', 'e', 'r');
    mkdirSync(other, { recursive: true });
    writeFileSync(join(other, 'stranger'), '');
    let isMoved = false;
    await expect(
      remove(root, (call, name) => {
        if (call === 'rmdirSync' && name === 'd39' && !isMoved) {
          isMoved = true;
          // d1 is closed by now; its child d2 goes elsewhere with all that is open.
          renameSync(join(root, 'd0', 'd1', 'd2'), join(other, 'd2'));
        }
        return undefined;
      }),
    ).rejects.toMatchObject({ code: 'SURVIVED' });
    expect(existsSync(join(root, 'd0', 'd1'))).toBe(true);
    expect(existsSync(join(other, 'stranger'))).toBe(true);
  });
});
