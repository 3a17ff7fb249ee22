#!/usr/bin/env zx
// What looking at processes costs: a scan of many sleeping ones beside `ls -l /proc/[0-9]*/cwd`, and task-status over many
// records. Run by hand, after a build: npx zx test/bench/processes.mjs [--processes 500] [--records 1000] [--rounds 15]
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { argv, echo, path } from 'zx';

const PROCESSES = Number(argv.processes ?? 500);
const RECORDS = Number(argv.records ?? 1000);
const ROUNDS = Number(argv.rounds ?? 15);
const project = path.resolve(import.meta.dirname, '../..');

const work = mkdtempSync('/tmp/task-spawn-bench-');
mkdirSync(join(work, 'base'));
const { NODE_EXTRA_CA_CERTS: _, TMPDIR: __, ...env } = process.env;
env.PATH = `${project}/bin:${project}/node_modules/.bin:${env.PATH}`;
env.FM_HOME = join(work, 'home');
env.FM_TASK_TMP_BASE = join(work, 'base');

function run(file, ...args) {
  const { status, stderr } = spawnSync(file, args, { env, cwd: work, stdio: ['ignore', 'ignore', 'pipe'] });
  // A process may end while ls looks at it.
  if (status !== 0 && file !== 'sh') throw new Error(`${file} gave ${status}: ${stderr}`);
}

/** The home and one record, copied under other ids, tokens and roots. Gives a root. */
function makeRecords() {
  run('task-spawn', 't0', '--', 'true');
  const state = join(env.FM_HOME, 'state');
  const record = readFileSync(join(state, 't0.meta'), 'utf8');
  for (let count = 1; count < RECORDS; count++) {
    const text = record
      .replace(/^id=.*$/m, `id=t${count}`)
      .replace(/^token=.*$/m, `token=${count.toString(16).padStart(32, '0')}`)
      .replace(/^tasktmp=(.*)t0$/m, `tasktmp=$1t${count}`);
    writeFileSync(join(state, `t${count}.meta`), text, { mode: 0o600 });
  }
  return /^tasktmp=(.*)$/m.exec(record)[1];
}

function loadTable() {
  const file = join(work, 'table.cjs');
  const flags = ['--bundle', '--platform=node', '--format=cjs', '--packages=external', '--log-level=error'];
  run(
    'esbuild',
    join(project, 'lib/process-table.ts'),
    ...flags,
    `--outfile=${file}`,
    '--define:import.meta.url=__filename',
  );
  return createRequire(import.meta.url)(file).readProcessTable;
}

const times = {};
const sleepers = [];
try {
  for (let count = 0; count < PROCESSES; count++) sleepers.push(spawn('sleep', ['1000'], { env, stdio: 'ignore' }));
  const root = makeRecords();
  const readProcessTable = loadTable();
  const rows = {
    'ls -l /proc/[0-9]*/cwd': () => run('sh', '-c', 'ls -l /proc/[0-9]*/cwd'),
    'scan, in process': () => readProcessTable(),
    'scan and visitors, in process': () => readProcessTable().visitors(root),
    [`task-status over ${RECORDS} records`]: () => run('task-status', '--json'),
    'node -e 0': () => run('node', '-e', '0'),
  };
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, row] of Object.entries(rows)) {
      const from = performance.now();
      row();
      const ms = performance.now() - from;
      // The first round warms the caches.
      if (round >= 0) times[name] = [...(times[name] ?? []), ms];
    }
  }
  const count = readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length;
  echo(`Node ${process.version}, ${ROUNDS} rounds, ${count} processes; ms`);
  for (const [name, list] of Object.entries(times)) {
    const [min, median] = [0, Math.floor(list.length / 2)].map((at) => list.toSorted((a, b) => a - b)[at].toFixed(1));
    echo(`${name.padEnd(34)} median ${median.padStart(7)}   min ${min.padStart(7)}`);
  }
} finally {
  for (const sleeper of sleepers) sleeper.kill('SIGKILL');
  rmSync(work, { recursive: true });
}
