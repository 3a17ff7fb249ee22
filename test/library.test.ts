/** The library as programs use it: the built package, from CommonJS and from ESM, types included. */
import { existsSync, readFileSync } from 'node:fs';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { execa } from 'execa';
import { describe, expect } from 'vitest';
import { type Sandbox, test } from './helpers/sandbox.ts';
import { until } from './helpers/until.ts';

const require = createRequire(import.meta.url);

/** A program's folder in which `task-spawn` is installed. */
async function makeProgram(sandbox: Sandbox, files: Record<string, string>): Promise<string> {
  const folder = join(sandbox.path, 'program');
  await mkdir(join(folder, 'node_modules'), { recursive: true });
  await symlink(join(sandbox.bin, '..'), join(folder, 'node_modules/task-spawn'));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  return folder;
}

const NAMES = ['TaskError', 'listTasks', 'prepareTask', 'spawnTask', 'teardownTask'];

describe('the library', () => {
  test('gives the same names to CommonJS and to ESM', async ({ sandbox }) => {
    const folder = await makeProgram(sandbox, {
      'a.cjs': "console.log(Object.keys(require('task-spawn')).sort().join())",
      'a.mjs': `import { ${NAMES.join(', ')} } from 'task-spawn'; console.log([${NAMES.join(', ')}].map((x) => typeof x).join())`,
    });
    const cjs = await sandbox.run('node', ['a.cjs'], { cwd: folder });
    const esm = await sandbox.run('node', ['a.mjs'], { cwd: folder });
    expect([cjs.stderr, cjs.stdout]).toEqual(['', NAMES.join()]);
    expect([esm.stderr, esm.stdout]).toEqual(['', NAMES.map(() => 'function').join()]);
  });

  test('reads no environment and touches nothing when it is imported', async ({ sandbox }) => {
    const folder = await makeProgram(sandbox, {
      'a.mjs': `
        const read = new Set();
        process.env = new Proxy(process.env, { get: (env, name) => (read.add(name), env[name]) });
        await import('task-spawn');
        console.log([...read].filter((name) => /^(FM_|HOME|XDG|TMPDIR|PATH)/.test(String(name))).join());`,
    });
    const { stdout, stderr } = await sandbox.run('node', ['a.mjs'], { cwd: folder, env: { TMPDIR: '/nowhere' } });
    expect([stdout, stderr]).toEqual(['', '']);
    expect(existsSync(sandbox.home)).toBe(false);
  });

  test('spawnTask runs a command as a task and tears that launch down', async ({ sandbox }) => {
    const folder = await makeProgram(sandbox, {
      'a.mjs': `
        import { spawnTask } from 'task-spawn';
        let pid;
        const settings = { pin: true, set: { window: '3' }, cwd: '/', onStart: (number) => { pid = number; } };
        const result = await spawnTask('a', ['sh', '-c', 'echo "$PWD $TMPDIR $$"; grep window= "$FM_HOME/state/a.meta"; exit 6'], settings);
        console.log(JSON.stringify({ ...result, pid }));`,
    });
    const { stdout, stderr } = await sandbox.run('node', ['a.mjs'], { cwd: folder });
    expect(stderr).toBe('');
    const [first, second, third] = stdout.split('\n') as [string, string, string];
    const [cwd, root, pid] = first.split(' ');
    expect([cwd, second]).toEqual(['/', 'window=3']);
    expect(JSON.parse(third)).toEqual({
      exitCode: 6,
      teardown: { is: 'removed', root, entries: 2, bytes: 0, processes: [] },
      pid: Number(pid),
    });
    expect(await sandbox.record('a')).toBeUndefined();
  });

  test('prepareTask, listTasks and teardownTask work on one home', async ({ sandbox }) => {
    const { listTasks, prepareTask, TaskError, teardownTask } = require(join(sandbox.bin, '../dist/index.cjs'));
    const settings = { env: sandbox.env };
    const task = await prepareTask('a', { ...settings, set: { role: 'x' } });
    expect(task).toMatchObject({ id: 'a', relaunched: false, unset: ['FM_TASK_PARENT'] });
    expect(existsSync(task.env.GOTMPDIR)).toBe(true);
    expect(listTasks(settings).tasks).toMatchObject([{ id: 'a', state: 'held', root: task.root, keys: { role: 'x' } }]);
    await expect(prepareTask('a', settings)).rejects.toBeInstanceOf(TaskError);
    await expect(prepareTask('a', settings)).rejects.toMatchObject({ code: 'BUSY' });
    expect(await teardownTask('a', settings)).toMatchObject({ is: 'removed', root: task.root });
    expect(await teardownTask('a', settings)).toEqual({ is: 'nothing', processes: [] });
    expect(existsSync(task.root)).toBe(false);
  });

  test('a program may change its working directory while a tree is removed: nothing there is touched', async ({
    sandbox,
  }) => {
    const script = `
      const fs = require('node:fs');
      const { prepareTask, teardownTask } = require(${JSON.stringify(join(sandbox.bin, '../dist/index.cjs'))});
      const names = Array.from({ length: 3000 }, (_, index) => 'f' + index);
      const fill = (folder) => {
        fs.mkdirSync(folder, { recursive: true });
        for (const name of names) fs.writeFileSync(folder + '/' + name, '');
      };
      // Names below a descriptor, were they looked up there.
      const other = ${JSON.stringify(join(sandbox.path, 'other'))};
      for (let fd = 10; fd < 40; fd++) fill(other + '/' + fd);
      (async () => {
        process.chdir('/proc/self/fd');
        const { root } = await prepareTask('a');
        fill(root + '/full');
        let turns = 0;
        const onProgress = () => process.chdir(turns++ % 2 === 0 ? other : '/proc/self/fd');
        const { is } = await teardownTask('a', { onProgress });
        const left = fs.readdirSync(other).map((fd) => fs.readdirSync(other + '/' + fd).length);
        console.log(JSON.stringify({ is, turns: turns > 2, left: [...new Set(left)] }));
      })();`;
    const { stdout, stderr } = await sandbox.run(process.execPath, ['-e', script]);
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual({ is: 'removed', turns: true, left: [3000] });
  });

  test('an aborted prepareTask leaves nothing', async ({ sandbox }) => {
    const { prepareTask } = require(join(sandbox.bin, '../dist/index.cjs'));
    const aborted = prepareTask('a', { env: sandbox.env, signal: AbortSignal.abort() });
    await expect(aborted).rejects.toMatchObject({ code: 'ABORTED' });
    expect(await sandbox.record('a')).toBeUndefined();
  });

  test('teardownTask of one launch leaves the process of another alone', async ({ sandbox }) => {
    const { teardownTask } = require(join(sandbox.bin, '../dist/index.cjs'));
    const run = sandbox.start('task-spawn', ['a', '--', 'sleep', '600']);
    await until('a runs', async () => (await sandbox.record('a'))?.state === 'active');
    const settings = { env: sandbox.env, spawnGen: '0'.repeat(32), stopGraceMs: 0 };
    expect(await teardownTask('a', settings)).toEqual({ is: 'nothing', processes: [] });
    expect((await sandbox.record('a'))?.state).toBe('active');
    expect(readFileSync(`/proc/${run.pid}/stat`, 'latin1')).toMatch(/\) [SR]/);
    run.kill('SIGKILL');
    await run;
  });

  test('its types hold for a program that uses them', async ({ sandbox }) => {
    const folder = await makeProgram(sandbox, {
      'package.json': '{ "type": "module" }',
      'a.ts': `
        import { listTasks, prepareTask, spawnTask, type RunResult, TaskError, teardownTask } from 'task-spawn';
        const result: RunResult = await spawnTask('a', ['true'], { pin: true });
        if (result.teardown instanceof TaskError) console.log(result.teardown.code);
        else if (result.teardown.is === 'removed') console.log(result.teardown.entries + 1);
        console.log((await prepareTask('b')).env, listTasks().tasks.map(({ id }) => id), await teardownTask('b'));
        // @ts-expect-error a command is a list that is not empty
        await spawnTask('a', []);`,
    });
    const options = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2022', '--types', 'node'];
    const modules = join(import.meta.dirname, '../node_modules');
    for (const name of ['@types', 'undici-types'])
      await symlink(join(modules, name), join(folder, 'node_modules', name));
    const { stdout, exitCode } = await execa(join(modules, '.bin/tsc'), [...options, 'a.ts'], {
      cwd: folder,
      reject: false,
    });
    expect([stdout, exitCode]).toEqual(['', 0]);
  });
});
