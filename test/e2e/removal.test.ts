/** task-teardown over trees of all sizes: threads, progress, a root that comes back (design section 8, cases B56, B57). */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { test } from '../helpers/memory.ts';
import { hasPython } from '../helpers/raw.ts';
import type { Sandbox } from '../helpers/sandbox.ts';
import { which } from '../helpers/shells.ts';
import { Terminal } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';

/** Runs what follows with a wait behind each unlink, in milliseconds. */
const slowly = (ms: number) => [
  '-f',
  '-qq',
  '-o',
  '/dev/null',
  '-e',
  'trace=unlink',
  '-e',
  `inject=unlink:delay_exit=${ms * 1000}`,
];

/** A dead task with `folders` times `files` files in its root; gives the root. */
async function plant(sandbox: Sandbox, folders: number, files: number): Promise<string> {
  const root = await sandbox.finished('a');
  for (let folder = 0; folder < folders; folder++) {
    mkdirSync(join(root, `d${folder}`));
    for (let file = 0; file < files; file++) writeFileSync(join(root, `d${folder}`, `f${file}`), 'x');
  }
  return root;
}

describe.skipIf(!which('strace'))('the number of walkers', () => {
  async function opened(sandbox: Sandbox): Promise<string> {
    const trace = join(sandbox.path, 'trace');
    const args = ['-f', '-qq', '-e', 'trace=openat', '-o', trace, 'task-teardown', 'a'];
    expect(await sandbox.run('strace', args)).toMatchObject({ status: 0 });
    return readFileSync(trace, 'latin1');
  }

  test('a tree of 30 entries is removed without a thread', async ({ memory }) => {
    await plant(memory, 3, 9);
    expect(await opened(memory)).not.toMatch(/crew|remove-worker/);
  });

  test('a large tree is removed with another one, counted once, and nothing stays', async ({ memory }) => {
    const root = await plant(memory, 100, 200);
    expect(await opened(memory)).toMatch(/remove-worker/);
    expect(existsSync(root)).toBe(false);
    expect(readdirSync(memory.state(''))).toEqual(['home-id']);
    await plant(memory, 50, 200);
    const { stdout } = await memory.teardown(['--json', 'a']);
    expect(JSON.parse(stdout).tasks).toMatchObject([{ outcome: 'removed', entries: 2 + 50 * 201 }]);
  });
});

describe.skipIf(!which('strace') || !hasPython)('progress', () => {
  test('on a terminal a removal of more than a second says how far it is, and the line goes', async ({ memory }) => {
    await plant(memory, 1, 600);
    const terminal = new Terminal(memory);
    try {
      await terminal.shows(/ready> /);
      terminal.enter(`strace ${slowly(10).join(' ')} task-teardown a`);
      await terminal.shows(/a: removing: [\d,]+ entries, .*iB, [\d,]+ entries\/s/);
      await terminal.shows(/task-teardown: a: removed .* \(603 entries, /);
      await terminal.shows(/ready> /);
    } finally {
      await terminal.close();
    }
  });

  test('in a pipe there is none, however long it takes', async ({ memory }) => {
    await plant(memory, 1, 600);
    const { status, stderr } = await memory.run('strace', [...slowly(10), 'task-teardown', 'a']);
    expect(status).toBe(0);
    expect(stderr).toMatch(/^task-teardown: a: removed \S+ \(603 entries, [^\n]*\)$/);
  });
});

describe.skipIf(!which('strace'))('what is not a success', () => {
  test('B56 a root that is made again behind the removal is reported, and its record stays', async ({ memory }) => {
    const root = await plant(memory, 1, 1);
    const again = ['import os, sys', 'while True:', '  try: os.mkdir(sys.argv[1]); break', '  except OSError: pass'];
    const maker = memory.start('python3', ['-c', again.join('\n'), root]);
    try {
      // A wait behind each rmdir, the last of which is the root's.
      const wait = ['-e', 'trace=rmdir', '-e', 'inject=rmdir:delay_exit=400000'];
      const args = ['-f', '-qq', '-o', '/dev/null', ...wait, 'task-teardown', '--strict', 'a'];
      const { status, stderr } = await memory.run('strace', args);
      expect([status, stderr]).toEqual([69, expect.stringContaining('something made it again after its removal')]);
      expect(await memory.record('a')).toMatchObject({ state: 'leftover' });
      expect(existsSync(root)).toBe(true);
    } finally {
      maker.kill('SIGKILL');
      await maker;
    }
  });

  for (const signal of ['SIGTERM', 'SIGKILL'] as const) {
    test(`${signal} while several walk: the record says removing, and the next teardown finishes`, async ({
      memory,
    }) => {
      const root = await plant(memory, 200, 200);
      const teardown = memory.start('task-teardown', ['a']);
      await until('threads are at work', () => readdirSync(root).length < 190);
      // A pipe that others write to as well stays as it was (O_NONBLOCK is 04000).
      const flags = /^flags:\s*(\d+)/m.exec(readFileSync(`/proc/${teardown.pid}/fdinfo/1`, 'latin1'))?.[1];
      expect(Number.parseInt(flags as string, 8) & 0o4000).toBe(0);
      teardown.kill(signal);
      const { stderr } = await teardown;
      expect(await memory.record('a')).toMatchObject({ state: 'removing' });
      expect(readdirSync(root).length).toBeGreaterThan(0);
      if (signal === 'SIGTERM') expect(stderr).toMatch(/stopped by a signal after \d+ entries/);
      expect(await memory.teardown(['a'])).toMatchObject({ status: 0 });
      expect(existsSync(root)).toBe(false);
      expect(await memory.record('a')).toBeUndefined();
    });
  }
});
