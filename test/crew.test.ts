/** A removal by several threads: it takes the same and leaves the same as by one (design section 8, cases B37, B45, B57). */
import { existsSync, lstatSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { chown } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { removeTree } from '../lib/remove.ts';
import { bundleWalk } from './helpers/bundle-walk.ts';
import { whileExchanging } from './helpers/exchanger.ts';
import { test } from './helpers/memory.ts';
import { isRoot, NOBODY, type Sandbox } from './helpers/sandbox.ts';
import { describeCanary, plantCanary, plantTree, readCanary, seeded } from './helpers/trees.ts';
import { until } from './helpers/until.ts';
import type { WalkJob, WalkOutcome } from './helpers/walk.ts';

const ME = process.geteuid?.() ?? 0;
const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];

/** A first walker that is so slow that the others do the most. */
const PAUSE = 1;

function remove(root: string, stop: (steps: number) => boolean = () => false) {
  const { dev, ino, birthtimeNs } = lstatSync(root, { bigint: true });
  const identity = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
  let steps = 0;
  const slow = () => {
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
    return stop(++steps);
  };
  return removeTree(root, identity, { uid: ME, crewFrom: 0, stop: slow });
}

async function walk(sandbox: Sandbox, job: WalkJob, prefix: readonly string[] = []): Promise<WalkOutcome> {
  const file = await bundleWalk(sandbox.path);
  const [command = process.execPath, ...args] = [...prefix, process.execPath, file, JSON.stringify(job)];
  const { stdout } = await execa(command, args, { cwd: '/' });
  return JSON.parse(stdout) as WalkOutcome;
}

/** A tree of many hostile ones; gives the number of its entries. */
async function plantForest(root: string, canary: Parameters<typeof plantTree>[1], uid: number, first: number) {
  mkdirSync(root);
  let entries = 1;
  for (let seed = first; seed < first + 25; seed++) {
    mkdirSync(join(root, String(seed)));
    entries += (await plantTree(join(root, String(seed)), canary, seeded(seed), uid)).entries;
  }
  return entries;
}

/** `count` files in each of `folders` folders. */
function plantPlain(root: string, folders: number, count: number): void {
  for (let folder = 0; folder < folders; folder++) {
    mkdirSync(join(root, `d${folder}`), { recursive: true });
    for (let file = 0; file < count; file++) writeFileSync(join(root, `d${folder}`, `f${file}`), 'x');
  }
}

describe('any tree, by several walkers', () => {
  for (const uid of isRoot ? [ME, NOBODY] : [ME]) {
    test(`as uid ${uid === ME ? 'of these tests' : uid}: forests go, each entry counted once, the canary as it was`, async ({
      memory,
    }) => {
      if (uid !== ME) await memory.giveTo(uid);
      const canary = plantCanary(join(memory.path, 'canary'), uid);
      const roots = Array.from({ length: 4 }, (_, index) => join(memory.base, String(index)));
      const planted: number[] = [];
      for (const [index, root] of roots.entries()) planted.push(await plantForest(root, canary, uid, index * 100));
      if (uid !== ME) for (const root of roots) await chown(root, uid, uid);
      const before = [readCanary(canary), describeCanary(canary)];
      const outcome = await walk(memory, { roots, pause: PAUSE }, uid === ME ? [] : AS_NOBODY);
      expect(outcome.errors).toEqual([]);
      expect(outcome.removals).toEqual(planted.map((entries) => ({ entries, keptCount: 0, kept: [], gone: true })));
      // Others than the first walker did work.
      expect(outcome.shared).toBeGreaterThan(100);
      const after = [describeCanary(canary), readCanary(canary)].reverse();
      expect(after).toEqual(before);
    });
  }

  test('B57 one folder is parted too', async ({ memory }) => {
    const root = join(memory.base, 'wide');
    plantPlain(root, 1, 20_000);
    let steps = 0;
    const removal = await remove(root, (each) => {
      steps = each;
      return false;
    });
    expect(removal).toMatchObject({ entries: 20_002, keptCount: 0, stopped: false });
    expect(steps).toBeLessThan(10_000);
    expect(existsSync(root)).toBe(false);
  });

  test.skipIf(!isRoot)('B51 what cannot go is named and counted once, and the rest goes', async ({ sandbox }) => {
    const root = join(sandbox.base, 'root');
    plantPlain(root, 60, 20);
    const wall = join(root, 'd7', 'f3');
    await execa('chattr', ['+i', wall]);
    try {
      const removal = await remove(root);
      expect(removal).toMatchObject({ entries: 60 * 21 - 2, keptCount: 1, kept: [{ path: wall }] });
      expect(readdirSync(root)).toEqual(['d7']);
    } finally {
      await execa('chattr', ['-i', wall]);
    }
    expect(await remove(root)).toMatchObject({ entries: 3, keptCount: 0 });
  });

  test('the number of bytes is what the file system has more afterwards', async ({ memory }) => {
    const root = join(memory.base, 'root');
    plantPlain(root, 40, 20);
    const mebibytes = 64;
    for (let file = 0; file < mebibytes; file++)
      writeFileSync(join(root, 'd3', `big${file}`), Buffer.alloc(1024 * 1024, 1));
    const { bytes } = await remove(root);
    // Other tests use this file system at the same time.
    expect(bytes).toBeGreaterThan((mebibytes / 2) * 1024 * 1024);
  });
});

test('where no thread can be made one walker does all', async ({ memory }) => {
  const threads = createRequire(import.meta.url)('node:worker_threads');
  const { Worker } = threads;
  const root = join(memory.base, 'root');
  plantPlain(root, 20, 20);
  threads.Worker = class {
    constructor() {
      throw Object.assign(new Error('EAGAIN'), { code: 'ERR_WORKER_INIT_FAILED' });
    }
  };
  try {
    expect(await remove(root)).toMatchObject({ entries: 1 + 20 * 21, keptCount: 0, stopped: false });
  } finally {
    threads.Worker = Worker;
  }
  expect(existsSync(root)).toBe(false);
});

describe('stopping', () => {
  test('whenever it comes, no descriptor stays', async ({ memory }) => {
    const before = readdirSync('/proc/self/fd').length;
    for (let round = 0; round < 12; round++) {
      const root = join(memory.base, String(round));
      plantPlain(root, 60, 40);
      // Some of these while the first walker has nothing left, and is given something at that very moment.
      const end = performance.now() + 150 + round * 25;
      const { stopped } = await remove(root, () => performance.now() > end);
      if (stopped) await remove(root);
      expect(existsSync(root)).toBe(false);
    }
    await until('all threads have ended', () => readdirSync('/proc/self/fd').length <= before + 3);
  });

  test('all walkers stop, no descriptor and no thread stays, and another removal finishes', async ({ memory }) => {
    const root = join(memory.base, 'root');
    plantPlain(root, 100, 100);
    const count = (what: string) => readdirSync(`/proc/self/${what}`).length;
    const threads = () => count('task');
    const warm = join(memory.base, 'warm');
    plantPlain(warm, 20, 20);
    await remove(warm);
    const open = count('fd');
    const before = threads();
    const first = await remove(root, (steps) => steps >= 200);
    expect(first.stopped).toBe(true);
    expect(existsSync(root)).toBe(true);
    const left = JSON.stringify(readdirSync(root, { recursive: true }));
    await until('the threads are gone', () => threads() <= before);
    expect(count('fd')).toBeLessThanOrEqual(open);
    // Nobody goes on after it has returned.
    expect(JSON.stringify(readdirSync(root, { recursive: true }))).toBe(left);
    const second = await remove(root);
    expect(first.entries + second.entries).toBe(1 + 100 * 101);
    expect(existsSync(root)).toBe(false);
  });
});

test.for<[string, Partial<WalkJob>]>([
  ['of several walkers', { pause: PAUSE }],
  ['of several that go by the working directory', { pause: PAUSE, relative: true }],
])(
  'B37 folders are exchanged with links to the canary under the hands %s: none escapes',
  async ([, job], { memory }) => {
    const canary = plantCanary(join(memory.path, 'canary'), ME);
    const root = join(memory.base, 'raced');
    const before = [readCanary(canary), describeCanary(canary)];
    await whileExchanging(root, 40, async () => {
      const again = { times: 100, link: canary.dir, folders: 40 };
      const { removals, errors, shared } = await walk(memory, { roots: [root], again, ...job });
      expect(removals.length + errors.length).toBe(100);
      expect(shared).toBeGreaterThan(500);
    });
    expect([describeCanary(canary), readCanary(canary)].reverse()).toEqual(before);
  },
);
