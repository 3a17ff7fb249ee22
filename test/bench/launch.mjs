#!/usr/bin/env zx
// What the launch and the teardown cost, beside what Node users put in front of commands today. Run by `npm run bench`.
// One run, alternating; medians and minima in milliseconds, whole processes from spawn to exit. Nothing else should run.
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { argv, echo, path } from 'zx';

const ROUNDS = Number(argv.rounds ?? 21);
const project = path.resolve(import.meta.dirname, '../..');
const node = argv.node ? path.resolve(argv.node) : process.execPath;

const work = mkdtempSync('/tmp/task-spawn-bench-');
const script = join(work, 'by-hand.sh');
writeFileSync(
  script,
  '#!/bin/sh\nd=$(mktemp -d) && mkdir "$d/gotmp" && env GOTMPDIR="$d/gotmp" true; s=$?; rm -rf "$d"; exit $s\n',
  { mode: 0o755 },
);
mkdirSync(join(work, 'base'));

const { NODE_EXTRA_CA_CERTS: _, TMPDIR: __, ...env } = process.env;
env.PATH = `${dirname(node)}:${project}/bin:${project}/node_modules/.bin:${env.PATH}`;
env.FM_HOME = join(work, 'home');
env.FM_TASK_TMP_BASE = join(work, 'base');

const commands = {
  'node -e 0': ['node', '-e', '0'],
  'task-spawn x -- true': ['task-spawn', 'x', '--', 'true'],
  'task-teardown x': ['task-teardown', 'x'],
  'by hand (mktemp, env, rm -rf)': [script],
  'cross-env A=1 true': ['cross-env', 'A=1', 'true'],
  'dotenv -- true': ['dotenv', '--', 'true'],
};

const times = Object.fromEntries(Object.keys(commands).map((name) => [name, []]));
try {
  for (let round = -1; round < ROUNDS; round++) {
    for (const [name, [file, ...args]] of Object.entries(commands)) {
      const from = performance.now();
      const { status, stderr } = spawnSync(file, args, { env, cwd: work, stdio: ['ignore', 'ignore', 'pipe'] });
      const ms = performance.now() - from;
      if (status !== 0) throw new Error(`${name} gave ${status}: ${stderr}`);
      // The first round warms the caches and makes the home.
      if (round >= 0) times[name].push(ms);
    }
  }
} finally {
  rmSync(work, { recursive: true });
}

const version = spawnSync(node, ['--version'], { encoding: 'utf8' }).stdout.trim();
const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
const floor = { median: median(times['node -e 0']), min: Math.min(...times['node -e 0']) };
echo(`Node ${version}, ${ROUNDS} rounds; ms, and in parentheses the ratio to node -e 0`);
for (const [name, list] of Object.entries(times)) {
  const cell = (value, base) => `${value.toFixed(1).padStart(7)} (${(value / base).toFixed(2)})`;
  echo(`${name.padEnd(32)} median ${cell(median(list), floor.median)}   min ${cell(Math.min(...list), floor.min)}`);
}
