#!/usr/bin/env zx
// What a removal costs, beside rm -rf, fs.promises.rm and rimraf. Run by `npm run bench:remove -- --on FOLDER`.
// Each contender removes a tree of its own, made anew; ratios are to the rm -rf of the same round. Nothing else should run.
//   --on FOLDER[,FOLDER]  the file systems to measure on (default: /tmp)
//   --shapes a,b,c,s      a: 1,000 folders of 100 files; b: 400,000 files in one; c: a node_modules 20 times; s: 30 entries
//   --rounds N            (default 3)
//   --first               make all trees of a round before the first is removed: for ext4 without a journal, which is
//                         slow in making files right after many were removed
//   --only NAMES          of: floor, removeTree, task-teardown, fs.promises.rm, rimraf
//
// The floor is two threads in C (floor.c) that take no care of anything; it is left out where there is no cc.
import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { argv, echo, path } from 'zx';

const project = path.resolve(import.meta.dirname, '../..');
const { NODE_EXTRA_CA_CERTS: _, TMPDIR: __, ...env } = process.env;
const list = (value, otherwise) => String(value ?? otherwise).split(',');

const SHAPES = {
  a: (root) => {
    for (let d = 0; d < 1000; d++) {
      mkdirSync(join(root, `d${d}`), { recursive: true });
      for (let f = 0; f < 100; f++) writeFileSync(join(root, `d${d}`, `f${f}`), 'x'.repeat(100));
    }
  },
  b: (root) => {
    mkdirSync(root);
    for (let f = 0; f < 400_000; f++) writeFileSync(join(root, `a-file-of-many-${f}`), '');
  },
  c: (root) => {
    for (let n = 0; n < 20; n++)
      cpSync(join(project, 'node_modules'), join(root, `n${n}`), { recursive: true, verbatimSymlinks: true });
  },
  s: (root) => {
    for (let d = 0; d < 3; d++) {
      mkdirSync(join(root, `d${d}`), { recursive: true });
      for (let f = 0; f < 9; f++) writeFileSync(join(root, `d${d}`, `f${f}`), 'x');
    }
  },
};

// In a process of its own: what it took in milliseconds, and the peak resident set of that process in KiB.
const inProcess = (body) => `
  Error.stackTraceLimit = 0;
  const fs = require('node:fs');
  const root = process.argv[1];
  const { dev, ino, birthtimeNs } = fs.lstatSync(root, { bigint: true });
  const identity = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
  const load = ${body.load};
  load().then(async (remove) => {
    ${body.before ?? ''}
    const from = performance.now();
    await remove(root, identity);
    const ms = performance.now() - from;
    if (fs.existsSync(root)) throw new Error('it is still there');
    process.stdout.write(JSON.stringify({ ms, peak: process.resourceUsage().maxRSS }));
    process.exit();
  });`;

const node = (body) => (root) => {
  const { stdout, stderr } = spawnSync(process.execPath, ['-e', inProcess(body), root], {
    env,
    cwd: project,
    encoding: 'utf8',
  });
  if (!stdout) throw new Error(stderr);
  return JSON.parse(stdout);
};

// A whole command: its wall and, from wait4(2), its peak.
const PEAK =
  'import resource,subprocess,sys,time,json;t=time.time();c=subprocess.run(sys.argv[1:],stderr=subprocess.DEVNULL).returncode;print(json.dumps({"code":c,"ms":(time.time()-t)*1000,"peak":resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss}))';
const whole = (...command) => {
  const { stdout } = spawnSync('python3', ['-c', PEAK, ...command], { env, encoding: 'utf8' });
  const result = JSON.parse(stdout);
  if (result.code !== 0) throw new Error(`${command.join(' ')} gave ${result.code}`);
  return result;
};

const tools = mkdtempSync(join(tmpdir(), 'task-spawn-bench-'));
const floor = join(tools, 'floor');
const source = join(import.meta.dirname, 'floor.c');
const hasFloor = spawnSync('cc', ['-O2', '-pthread', '-o', floor, source]).status === 0;

const CONTENDERS = {
  'rm -rf': (root) => whole('rm', '-rf', root),
  ...(hasFloor ? { floor: (root) => whole(floor, root) } : {}),
  removeTree: node({
    load: `async () => (r, i) => require('./dist/remove.cjs').removeTree(r, i, { uid: process.getuid(), stop: () => false, prefix: '' })`,
    // As task-teardown does.
    before: `process.chdir('/proc/self/fd');`,
  }),
  'task-teardown': (_root, task) => whole(join(project, 'bin/task-teardown'), task),
  'fs.promises.rm': node({ load: `async () => (r) => fs.promises.rm(r, { recursive: true })` }),
  rimraf: node({ load: `async () => (await import('rimraf')).rimraf` }),
};
const chosen = list(argv.only, Object.keys(CONTENDERS).join(','));
const contenders = Object.entries(CONTENDERS).filter(([name]) => name === 'rm -rf' || chosen.includes(name));

const median = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];

for (const on of list(argv.on, '/tmp')) {
  const work = mkdtempSync(join(path.resolve(on), 'task-spawn-bench-'));
  env.FM_HOME = join(work, 'home');
  env.FM_TASK_TMP_BASE = work;
  try {
    for (const shape of list(argv.shapes, 'a,b,c,s')) {
      const results = Object.fromEntries(contenders.map(([name]) => [name, []]));
      for (let round = 0; round < Number(argv.rounds ?? 3); round++) {
        const make = (name) => {
          const tree = join(work, `tree-${name.replaceAll(/\W/g, '-')}`);
          SHAPES[shape](tree);
          if (name !== 'task-teardown') return tree;
          const { stdout } = spawnSync(
            join(project, 'bin/task-spawn'),
            ['x', '--', 'sh', '-c', 'echo "$FM_TASK_TMP"'],
            { env, encoding: 'utf8' },
          );
          renameSync(tree, join(stdout.trim(), 'tree'));
          return stdout.trim();
        };
        const first = argv.first ? Object.fromEntries(contenders.map(([name]) => [name, make(name)])) : {};
        for (const [name, remove] of contenders) {
          const tree = first[name] ?? make(name);
          spawnSync('sync');
          results[name].push(remove(tree, 'x'));
        }
      }
      echo(`${on} (${shape}), ${results['rm -rf'].length} rounds`);
      for (const [name, rounds] of Object.entries(results)) {
        const ratios = rounds.map(({ ms }, round) => ms / results['rm -rf'][round].ms);
        const [ms, ratio, peak] = [
          median(rounds.map(({ ms }) => ms)),
          median(ratios),
          Math.max(...rounds.map(({ peak }) => peak)),
        ];
        const range = `${Math.min(...ratios).toFixed(2)}-${Math.max(...ratios).toFixed(2)}`;
        echo(
          `  ${name.padEnd(16)} ${ms.toFixed(1).padStart(9)} ms  ${ratio.toFixed(2)} (${range})  peak ${(peak / 1024).toFixed(0)} MiB`,
        );
      }
    }
  } finally {
    rmSync(work, { recursive: true, force: true });
  }
}
rmSync(tools, { recursive: true });
