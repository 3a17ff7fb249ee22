/** The build (lib/bundle.mjs): what makes the commands start fast, and that nothing depends on it. */
import { cpSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { basename, join } from 'node:path';
import { Script } from 'node:vm';
import { expect, inject } from 'vitest';
import { test } from './helpers/sandbox.ts';

const dist = new URL('../dist', import.meta.url).pathname;
const ADDON = `node_modules/fs-native-extensions/prebuilds/${process.platform}-${process.arch}/fs-native-extensions.node`;
const made = readdirSync(dist).filter((name) => name.endsWith('.v8'));

test.for(['task-spawn', 'task-teardown', 'task-status'])('V8 takes the code that was made for %s', (name) => {
  const file = made.find((each) => each.startsWith(`${name}.`)) as string;
  const { platform, arch, version } = process;
  expect(file).toMatch(new RegExp(`^${name}\\.[0-9a-f]{16}\\.${platform}-${arch}-${version}\\.v8$`));
  expect(readFileSync(join(dist, `${name}.load.js`), 'utf8')).toContain(
    `${file.slice(0, -`.${platform}-${arch}-${version}.v8`.length)}.`,
  );
  const source = readFileSync(join(dist, `${name}.cjs`), 'latin1');
  const code = `(function (require, __filename, __dirname) {${source}\n})`;
  expect(new Script(code, { cachedData: readFileSync(join(dist, file)) }).cachedDataRejected).toBe(false);
});

test.for<[string, (file: string) => void]>([
  ['missing', (file) => rmSync(file)],
  ['cut off', (file) => writeFileSync(file, readFileSync(file).subarray(0, 5000))],
  ["another version's", (file) => writeFileSync(file, readFileSync(file).fill(0x55, 4, 12))],
])('where that code is %s the commands compile their own', async ([, spoil], { sandbox }) => {
  const copy = join(sandbox.path, 'copy');
  cpSync(inject('installed'), copy, { recursive: true });
  for (const file of made) spoil(join(copy, 'dist', file));
  const run = (name: string, args: string[]) => sandbox.run(join(copy, 'bin', name), args);
  const spawned = await run('task-spawn', ['a', '--', 'sh', '-c', 'echo "$FM_TASK_ID"']);
  expect(spawned).toMatchObject({ status: 0, stdout: 'a', stderr: '' });
  expect(await run('task-status', ['--json'])).toMatchObject({ status: 0, stderr: '' });
  expect(await run('task-teardown', ['a'])).toMatchObject({ status: 0 });
});

test('a launch of a new id loads its own code and nothing that only others need', async ({ sandbox }) => {
  await sandbox.finished('first');
  const trace = join(sandbox.path, 'trace');
  const args = ['-f', '-qq', '-e', 'trace=open,openat', '-o', trace, 'task-spawn', 'a', '--', 'true'];
  expect(await sandbox.run('strace', args)).toMatchObject({ status: 0 });
  const opened = readFileSync(trace, 'latin1').matchAll(/"([^"]+\.(?:js|cjs|v8))", O_RDONLY\S*\) = \d/g);
  const names = [...opened].map(([, path]) => basename(path as string).replace(/\.[0-9a-f]{16}\..*\.v8/, '.v8'));
  expect(new Set(names)).toEqual(new Set(['task-spawn.load.js', 'task-spawn.cjs', 'task-spawn.v8']));
});

test.for<[string, (addon: string) => void, RegExp]>([
  ['without', (addon) => rmSync(addon), /it is not there/],
  ['with a broken', (addon) => writeFileSync(addon, 'x'), /file too short/],
])('an installation %s lock for its platform says so, and makes nothing', async ([, spoil, why], { sandbox }) => {
  const copy = join(sandbox.path, 'copy');
  cpSync(inject('installed'), copy, { recursive: true });
  spoil(join(copy, ADDON));
  const { status, stdout, stderr } = await sandbox.run(join(copy, 'bin/task-spawn'), ['a', '--', 'true']);
  expect({ status, stdout }).toEqual({ status: 125, stdout: '' });
  expect(stderr).toMatch(/^task-spawn: the lock's addon \S+ cannot be loaded \(.*\): install task-spawn again$/);
  expect(stderr).toMatch(why);
  expect(readdirSync(sandbox.base)).toEqual([]);
});

test('the lock is found further up, past a node_modules that holds nothing', async ({ sandbox }) => {
  const copy = join(sandbox.path, 'node_modules/task-spawn');
  cpSync(inject('installed'), copy, { recursive: true });
  renameSync(join(copy, 'node_modules'), join(sandbox.path, 'hoisted'));
  for (const name of readdirSync(join(sandbox.path, 'hoisted')))
    renameSync(join(sandbox.path, 'hoisted', name), join(sandbox.path, 'node_modules', name));
  writeFileSync(join(copy, 'node_modules'), '');
  const { status, stderr } = await sandbox.run(join(copy, 'bin/task-spawn'), ['a', '--', 'true']);
  expect({ status, stderr }).toEqual({ status: 0, stderr: '' });
});
