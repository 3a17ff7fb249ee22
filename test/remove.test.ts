/** Removing a tree: cases B37, B45, B47, B49, B52, B56, B57 and design section 8, on real file systems and real races. */
import { execFileSync } from 'node:child_process';
import { chmodSync, existsSync, lstatSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { removeTree } from '../lib/remove.ts';
import { bundleWalk } from './helpers/bundle-walk.ts';
import { whileExchanging } from './helpers/exchanger.ts';
import { test } from './helpers/memory.ts';
import { isRoot, NOBODY, type Sandbox } from './helpers/sandbox.ts';
import { type Canary, describeCanary, plantCanary, plantTree, readCanary, seeded } from './helpers/trees.ts';
import { until } from './helpers/until.ts';
import type { WalkJob, WalkOutcome } from './helpers/walk.ts';

const ME = process.geteuid?.() ?? 0;
const SEEDS = 250;
const WAYS: [string, Partial<WalkJob>][] = [
  ['whole names', {}],
  ['names in the working directory', { relative: true }],
];

function identityAt(path: string) {
  const { dev, ino, birthtimeNs } = lstatSync(path, { bigint: true });
  return { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
}

const remove = (root: string, stop = () => false) => removeTree(root, identityAt(root), { uid: ME, stop });

/** Runs removeTree in a process of its own. */
async function walk(sandbox: Sandbox, job: WalkJob, prefix: readonly string[] = [], script?: string) {
  const file = script ?? (await bundleWalk(sandbox.path));
  const [command = process.execPath, ...args] = [...prefix, process.execPath, file, JSON.stringify(job)];
  const { stdout } = await execa(command, args, { cwd: '/' });
  return JSON.parse(stdout) as WalkOutcome;
}

const AS_NOBODY = ['setpriv', `--reuid=${NOBODY}`, `--regid=${NOBODY}`, '--clear-groups'];

/** Looks at the canary before and, with the function it gives, after. */
function guard(canary: Canary): () => void {
  const content = readCanary(canary);
  const before = describeCanary(canary);
  return () => {
    expect(describeCanary(canary)).toEqual(before);
    expect(readCanary(canary)).toEqual(content);
  };
}

describe('any tree', () => {
  test(`${SEEDS} seeds of odd names, modes, links, fifos and sockets go, and the canary outside is as it was`, async ({
    sandbox,
    memory,
  }) => {
    for (const [place, seeds] of [
      [memory, SEEDS],
      [sandbox, SEEDS / 10],
    ] as const) {
      const canary = plantCanary(join(place.path, 'canary'), ME);
      for (let seed = 1; seed <= seeds; seed++) {
        const root = join(place.base, String(seed));
        mkdirSync(root);
        const { entries } = await plantTree(root, canary, seeded(seed), ME);
        const check = guard(canary);
        const removal = await remove(root);
        expect({ seed, ...removal }).toMatchObject({ seed, entries, keptCount: 0, kept: [], stopped: false });
        expect(existsSync(root)).toBe(false);
        check();
      }
    }
  });

  test.skipIf(!isRoot).for(WAYS)(`B45 ${SEEDS} seeds as a user whom modes bind, by %s`, async ([, way], { memory }) => {
    await memory.giveTo(NOBODY);
    const canary = plantCanary(join(memory.path, 'canary'), NOBODY);
    const roots = Array.from({ length: SEEDS }, (_, index) => join(memory.base, String(index)));
    const planted: number[] = [];
    for (const [index, root] of roots.entries()) {
      mkdirSync(root);
      planted.push((await plantTree(root, canary, seeded(1000 + index), NOBODY)).entries);
    }
    const check = guard(canary);
    const { removals, errors } = await walk(memory, { roots, ...way }, AS_NOBODY);
    expect(errors).toEqual([]);
    expect(removals).toEqual(planted.map((entries) => ({ entries, keptCount: 0, kept: [], gone: true })));
    expect(readdirSync(memory.base)).toEqual([]);
    check();
  });

  test.for(WAYS)(
    'B52 deeper than a path can be long, and than folders are held open, by %s',
    async ([, way], { memory }) => {
      const root = join(memory.base, 'deep');
      const make = [
        'import os, sys',
        'os.mkdir(sys.argv[1]); os.chdir(sys.argv[1])',
        'for level in range(1200):',
        '  for name in ("d" * 40, "e"): os.mkdir(name)',
        '  open("f", "w").close(); open("e/g", "w").close()',
        '  os.chdir("d" * 40)',
      ].join('\n');
      execFileSync('python3', ['-c', make, root]);
      const { removals, errors } = await walk(memory, { roots: [root], ...way });
      expect(errors).toEqual([]);
      expect(removals).toMatchObject([{ entries: 1 + 1200 * 4, keptCount: 0, gone: true }]);
    },
  );

  test('B57 5,000 entries in one folder, and a folder that is not empty among them', async ({ memory }) => {
    const root = join(memory.base, 'wide');
    mkdirSync(root);
    for (let index = 0; index < 5000; index++) writeFileSync(join(root, `file ${index}`), '');
    mkdirSync(join(root, 'sub', 'sub'), { recursive: true });
    expect(await remove(root)).toMatchObject({ entries: 5003, keptCount: 0 });
    expect(existsSync(root)).toBe(false);
  });

  test('B57 the memory it takes does not grow with a folder', async ({ memory }) => {
    const script = await bundleWalk(memory.path);
    const [small, large] = [10, 100_000].map((count) => {
      const root = join(memory.base, String(count));
      const make =
        'import os, sys\nos.mkdir(sys.argv[1])\nfor i in range(int(sys.argv[2])): os.mknod(sys.argv[1] + "/%d" % i)';
      execFileSync('python3', ['-c', make, root, String(count)]);
      return root;
    }) as [string, string];
    const before = await walk(memory, { roots: [small] }, [], script);
    const after = await walk(memory, { roots: [large] }, [], script);
    expect(after.removals).toMatchObject([{ entries: 100_001, gone: true }]);
    // Names of that folder, held at once, take about 100 MiB more.
    expect(after.peak - before.peak).toBeLessThan(40 * 1024);
  });

  test('the root itself may be without permissions', async ({ sandbox }) => {
    const root = join(sandbox.base, 'locked');
    mkdirSync(join(root, 'a'), { recursive: true });
    chmodSync(root, 0);
    expect(await remove(root)).toMatchObject({ entries: 2, keptCount: 0 });
  });
});

describe('identity', () => {
  test('B37 a root that was exchanged is not touched, not even its mode', async ({ sandbox }) => {
    const [root, other] = [join(sandbox.base, 'root'), join(sandbox.base, 'other')];
    for (const path of [root, other]) mkdirSync(path);
    writeFileSync(join(other, 'file'), '');
    chmodSync(other, 0o100);
    const before = lstatSync(other);
    const identity = identityAt(root);
    await expect(removeTree(other, identity, { uid: ME, stop: () => false })).rejects.toMatchObject({
      code: 'NOT_OURS',
    });
    for (const key of ['tmp_ino', 'tmp_btime', 'tmp_dev']) {
      const forged = { ...identityAt(other), [key]: '1' };
      await expect(removeTree(other, forged, { uid: ME, stop: () => false })).rejects.toMatchObject({
        code: 'NOT_OURS',
      });
    }
    const after = lstatSync(other);
    expect([after.mode, after.ctimeMs]).toEqual([before.mode, before.ctimeMs]);
    chmodSync(other, 0o700);
    expect(readdirSync(other)).toEqual(['file']);
  });

  test.skipIf(!isRoot)('B37 the same as a user who would have to change its mode first', async ({ sandbox }) => {
    await sandbox.giveTo(NOBODY);
    const [root, other] = [join(sandbox.base, 'root'), join(sandbox.base, 'other')];
    execFileSync('sh', [
      '-c',
      `mkdir ${root} ${other}; touch ${other}/file; chmod 0 ${other}; chown -R ${NOBODY} ${sandbox.base}`,
    ]);
    const before = lstatSync(other);
    const { removals, errors } = await walk(sandbox, { roots: [other], identityOf: root }, AS_NOBODY);
    expect([removals, errors]).toEqual([[], [expect.stringContaining('exchanged')]]);
    const after = lstatSync(other);
    expect([after.mode, after.ctimeMs]).toEqual([before.mode, before.ctimeMs]);
  });

  test('a link in its place is not followed', async ({ sandbox }) => {
    const canary = plantCanary(join(sandbox.path, 'canary'), ME);
    const check = guard(canary);
    const root = join(sandbox.base, 'root');
    symlinkSync(canary.dir, root);
    await expect(removeTree(root, identityAt(canary.dir), { uid: ME, stop: () => false })).rejects.toThrow();
    check();
  });

  test('B37 10,000 walks while folders are exchanged with links to the canary: none escapes', async ({ memory }) => {
    const canary = plantCanary(join(memory.path, 'canary'), ME);
    const root = join(memory.base, 'raced');
    const check = guard(canary);
    await whileExchanging(root, 2, async () => {
      const { removals, errors } = await walk(memory, { roots: [root], again: { times: 10_000, link: canary.dir } });
      expect(removals.length + errors.length).toBe(10_000);
      // The walk did its work all the same.
      expect(removals.filter(({ gone }) => gone).length).toBeGreaterThan(5000);
    });
    check();
  });
});

describe.skipIf(!isRoot)('mounts that appear during the walk are not entered', () => {
  const cases = [
    ['B47 over a folder that is not empty, by a bind of the same file system', 'bind', 1],
    ['B47 the same between its rmdir and its opening', 'bind', 'not-empty'],
    ['B47 by a tmpfs', 'tmpfs', 1],
  ] as const;
  for (const [title, kind, at] of cases) {
    test(title, async ({ sandbox }) => {
      const canary = plantCanary(join(sandbox.path, 'canary'), ME);
      const root = join(sandbox.base, 'root');
      mkdirSync(join(root, 'mnt', 'hidden'), { recursive: true });
      mkdirSync(join(root, 'other', 'sub'), { recursive: true });
      const target = join(root, 'mnt');
      const command =
        kind === 'bind' ? ['mount', '--bind', canary.dir, target] : ['mount', '-t', 'tmpfs', 'tmpfs', target];
      const check = guard(canary);
      const meanwhile = { at, below: 'mnt', command };
      const outcome = await walk(sandbox, { roots: [root], meanwhile }, ['unshare', '-m']);
      expect(outcome.errors).toEqual([]);
      expect(outcome.removals).toMatchObject([{ keptCount: 1, kept: [{ path: target }], gone: false }]);
      expect(outcome.removals[0]?.kept[0]?.reason).toMatch(/mount point/);
      // What the mount hides stays, what lies beside it is gone.
      expect(readdirSync(root)).toEqual(['mnt']);
      expect(readdirSync(target)).toEqual(['hidden']);
      check();
    });
  }
});

describe('what cannot go', () => {
  test.skipIf(!isRoot)("B49 another uid's: named with the uid, the rest goes", async ({ sandbox }) => {
    await sandbox.giveTo(NOBODY);
    const root = join(sandbox.base, 'root');
    execFileSync('sh', [
      '-c',
      `mkdir -p ${root}/mine/deep ${root}/theirs/sub ${root}/locked/sub ${root}/open/nobodys/x
      echo > ${root}/theirs/file; echo > ${root}/mine/deep/file; chmod 700 ${root}/locked
      chown -R ${NOBODY} ${root}/mine ${root}/open/nobodys; chown ${NOBODY} ${root}`,
    ]);
    const { removals, errors } = await walk(sandbox, { roots: [root] }, AS_NOBODY);
    expect(errors).toEqual([]);
    expect(removals[0]?.gone).toBe(false);
    expect(removals[0]?.kept.map(({ path }) => path.slice(root.length + 1)).sort()).toEqual([
      'locked',
      'open/nobodys',
      'theirs/file',
      'theirs/sub',
    ]);
    for (const { reason } of removals[0]?.kept ?? []) {
      expect(reason).toContain('belongs to uid 0 (E');
      expect(reason).toContain(`rm -rf -- ${root}`);
    }
    // What is ours goes, also what lies in a folder that is not.
    expect(readdirSync(root).sort()).toEqual(['locked', 'open', 'theirs']);
    expect(readdirSync(join(root, 'open', 'nobodys'))).toEqual([]);
  });

  test.skipIf(!isRoot)("B49 another uid's folder in a sticky one is EPERM and named", async ({ sandbox }) => {
    await sandbox.giveTo(NOBODY);
    const root = join(sandbox.base, 'root');
    execFileSync('sh', [
      '-c',
      `mkdir -p ${root}/sticky; chmod 1777 ${root}/sticky; echo > ${root}/sticky/theirs
      echo > ${root}/sticky/mine; chown ${NOBODY} ${root} ${root}/sticky/mine`,
    ]);
    const { removals } = await walk(sandbox, { roots: [root] }, AS_NOBODY);
    expect(removals).toMatchObject([{ keptCount: 1, gone: false }]);
    expect(removals[0]?.kept[0]?.reason).toContain('belongs to uid 0 (EPERM)');
    expect(readdirSync(join(root, 'sticky'))).toEqual(['theirs']);
  });

  test('B09 a process that keeps writing: the walk ends, says so, and a later one finishes', async ({ sandbox }) => {
    const root = join(sandbox.base, 'root');
    mkdirSync(join(root, 'x'), { recursive: true });
    const script = await bundleWalk(sandbox.path);
    const writing = `while :; do mkdir -p x; : > x/$RANDOM; : > x/$RANDOM; done`;
    const writers = [1, 2].map(() => execa('bash', ['-c', writing], { cwd: root, reject: false, stderr: 'ignore' }));
    try {
      await until('files are written', () => readdirSync(join(root, 'x')).length > 100);
      const { removals, errors } = await walk(sandbox, { roots: [root] }, [], script);
      expect(removals.length + errors.length).toBe(1);
      if (removals[0]?.gone === false) expect(removals[0].kept[0]?.reason).toContain('keeps writing');
    } finally {
      for (const writer of writers) writer.kill('SIGKILL');
      await Promise.all(writers);
    }
    if (existsSync(root)) await remove(root);
    expect(existsSync(root)).toBe(false);
  });
});

describe('stopping', () => {
  test('ends between two entries and another walk finishes', async ({ sandbox }) => {
    const canary = plantCanary(join(sandbox.path, 'canary'), ME);
    const root = join(sandbox.base, 'root');
    mkdirSync(root);
    const { entries } = await plantTree(root, canary, seeded(7), ME);
    let asked = 0;
    const first = await remove(root, () => ++asked > 10);
    expect(first.stopped).toBe(true);
    const second = await remove(root);
    expect(second).toMatchObject({ stopped: false, keptCount: 0 });
    expect(first.entries + second.entries).toBe(entries);
  });

  test('leaves no descriptor open', async ({ sandbox }) => {
    const open = () => readdirSync('/proc/self/fd').length;
    const root = join(sandbox.base, 'root');
    mkdirSync(join(root, ...Array.from({ length: 80 }, () => 'd')), { recursive: true });
    const before = open();
    await remove(root, () => !existsSync(join(root, ...Array.from({ length: 70 }, () => 'd'))));
    if (existsSync(root)) await remove(root);
    expect(open()).toBe(before);
    expect(await readFile('/proc/self/limits', 'utf8')).toContain('open files');
  });
});
