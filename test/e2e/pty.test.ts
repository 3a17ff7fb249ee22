/** On a terminal, from an interactive shell: acceptance E03, cases B65 and B68, and what a person is told (design section 15). */
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect } from 'vitest';
import { acquireLock } from '../../lib/lock.ts';
import { findPlanner, listeningPlanner, proc } from '../helpers/planner.ts';
import { hasPython } from '../helpers/raw.ts';
import { test as base, type Sandbox } from '../helpers/sandbox.ts';
import { SHELLS, which } from '../helpers/shells.ts';
import { Terminal } from '../helpers/terminal.ts';
import { until } from '../helpers/until.ts';

const test = base.extend<{ terminal: Terminal }>({
  terminal: async ({ sandbox }, use) => {
    const terminal = new Terminal(sandbox);
    try {
      await terminal.shows(PROMPT);
      await use(terminal);
    } finally {
      await terminal.close();
    }
  },
});

const PROMPT = /ready> /;
const CTRL_C = '\x03';
const CTRL_Z = '\x1a';

/** Counts its interrupts and window changes, and ends on a line. */
const COUNTER = `n=0
trap 'n=$((n+1)); echo "[int $n]"' INT
trap 'echo "[size $(stty size </dev/tty)]"' WINCH
echo "[up]"
until read -t 0.1 -r line; do :; done
echo "[end $line $n]"
`;

/** Waits until the task's command runs as this program, and gives its pid. */
function running(sandbox: Sandbox, id: string, program: string): Promise<number> {
  return until(`${id} runs ${program}`, async () => {
    const pid = Number((await sandbox.record(id))?.pid ?? 0);
    return proc(pid, 'stat').includes(`(${program}) S`) ? pid : undefined;
  });
}

/** No record and no root. */
async function expectGone(sandbox: Sandbox): Promise<void> {
  expect(await readdir(sandbox.base)).toEqual([]);
  expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
}

describe.skipIf(!hasPython || !which('bash'))('--rm on a terminal', () => {
  test('Ctrl-C reaches the command once, its status is the end, and the task is torn down', async ({
    sandbox,
    terminal,
  }) => {
    await writeFile(join(sandbox.path, 'counter'), COUNTER);
    terminal.enter('task-spawn --rm a -- bash counter; echo "[status $?]"');
    await terminal.shows(/\[up\]/);
    terminal.type(CTRL_C);
    await terminal.shows(/\[int 1\]/);
    terminal.enter('line');
    await terminal.shows(/\[end line 1\]/);
    await terminal.shows(/\[status 0\]/);
    await expectGone(sandbox);

    terminal.enter('task-spawn --rm b -- sleep 600');
    await running(sandbox, 'b', 'sleep');
    terminal.type(CTRL_C);
    await terminal.shows(/\^C\s+ready> /);
    terminal.enter('echo "[status $?]"');
    await terminal.shows(/\[status 130\]/);
    await expectGone(sandbox);
  });

  test('B68 Ctrl-Z stops both, and fg resumes both', async ({ sandbox, terminal }) => {
    terminal.enter('task-spawn --rm a -- cat');
    const pid = await running(sandbox, 'a', 'cat');
    terminal.type(CTRL_Z);
    await terminal.shows(/Stopped/);
    expect(proc(pid, 'stat')).toContain('(cat) T');
    terminal.enter('fg');
    await running(sandbox, 'a', 'cat');
    terminal.type('through\n\x04');
    await terminal.shows(/through\r\nthrough/);
    await terminal.shows(PROMPT);
    terminal.enter('echo "[status $?]"');
    await terminal.shows(/\[status 0\]/);
    await expectGone(sandbox);
  });

  test('SIGTERM to the parent alone ends the command, and the task is torn down', async ({ sandbox, terminal }) => {
    terminal.enter('task-spawn --rm a -- sleep 600');
    const pid = await running(sandbox, 'a', 'sleep');
    const parent = Number(proc(pid, 'stat').split(') ')[1]?.split(' ')[1]);
    process.kill(parent, 'SIGTERM');
    await terminal.shows(/Terminated/);
    await terminal.shows(PROMPT);
    terminal.enter('echo "[status $?]"');
    await terminal.shows(/\[status 143\]/);
    await expectGone(sandbox);
  });

  test('B70 the terminal closes: the command hears of it, ends, and the task is torn down', async ({
    sandbox,
    terminal,
  }) => {
    terminal.enter('task-spawn --rm a -- sh -c \'trap "echo hup >> heard; exit" HUP; while :; do sleep 0.05; done\'');
    await running(sandbox, 'a', 'sh');
    await terminal.close();
    await until('the task is gone', async () => (await readdir(sandbox.state(''))).join() === 'home-id');
    await expectGone(sandbox);
    expect(await readFile(join(sandbox.path, 'heard'), 'utf8')).toBe('hup\n');
  });
});

describe.skipIf(!hasPython || !which('bash'))('E03 on a terminal', () => {
  describe.each(SHELLS)('under $name', ({ words }) => {
    test('Ctrl-C reaches the command once, and sizes and /dev/tty work', async ({ sandbox, terminal }) => {
      await writeFile(join(sandbox.path, 'counter'), COUNTER);
      const prefix = [...words(sandbox), join(sandbox.bin, 'task-spawn')].join(' ');
      terminal.enter(`${prefix} a -- bash counter; echo "[status $?]"`);
      await terminal.shows(/\[up\]/);
      terminal.type(CTRL_C);
      await terminal.shows(/\[int 1\]/);
      terminal.resize(33, 77);
      // bash loses a signal that comes right behind the end of a trap: the size changes again until it is heard.
      const again = setInterval(() => {
        terminal.resize(34, 78);
        terminal.resize(33, 77);
      }, 2000);
      await terminal.shows(/\[size 33 77\]/).finally(() => clearInterval(again));
      terminal.enter('line');
      await terminal.shows(/\[end line 1\]/);
      await terminal.shows(/\[status 0\]/);

      terminal.enter(`${prefix} b -- sleep 600`);
      await running(sandbox, 'b', 'sleep');
      terminal.type(CTRL_C);
      await terminal.shows(/\^C\s+ready> /);
      terminal.enter('echo "[status $?]"');
      await terminal.shows(/\[status 130\]/);

      terminal.enter(`${prefix} c -- sh -c 'printf "name? " >/dev/tty; read -r x </dev/tty; echo "[$x]"'`);
      await terminal.shows(/\nname\? /);
      terminal.enter('somebody');
      await terminal.shows(/\[somebody\]/);
    });

    test('B68 Ctrl-Z stops the command, and fg resumes it', async ({ sandbox, terminal }) => {
      const prefix = [...words(sandbox), join(sandbox.bin, 'task-spawn')].join(' ');
      terminal.enter(`${prefix} a -- cat`);
      const pid = await running(sandbox, 'a', 'cat');
      terminal.type(CTRL_Z);
      await terminal.shows(/Stopped/);
      expect(proc(pid, 'stat')).toContain('(cat) T');
      terminal.enter('echo "[$(jobs -p)]"; fg');
      await terminal.shows(new RegExp(`\\[${pid}\\]`));
      await running(sandbox, 'a', 'cat');
      terminal.type('through\n\x04');
      await terminal.shows(/through\r\nthrough/);
      await terminal.shows(PROMPT);
      terminal.enter('echo "[status $?]"');
      await terminal.shows(/\[status 0\]/);
    });

    test('Ctrl-C while planning: the prompt is back, status 130, nothing is left', async ({ sandbox, terminal }) => {
      await sandbox.finished('first');
      await sandbox.teardown(['first']);
      const lock = await acquireLock(sandbox.state('a.lock'), { ms: 0, beat: async () => {} });
      const prefix = [...words(sandbox), join(sandbox.bin, 'task-spawn')].join(' ');
      // A loop around it stops as well: the shell sees that its child died of the interrupt.
      terminal.enter(`for i in 1 2; do ${prefix} a -- touch started-$i; echo "[after $?]"; done`);
      await listeningPlanner(sandbox, 'a');
      terminal.type(CTRL_C);
      expect(await terminal.shows(PROMPT)).toMatch(/task-spawn: aborted by SIGINT: the command was not started/);
      terminal.enter('echo "[status $?]"');
      expect(await terminal.shows(/\[status 130\]/)).not.toContain('[after 1');
      expect(findPlanner(sandbox, 'a')).toBeUndefined();
      lock?.release({ unlink: true });
      expect(await readdir(sandbox.base)).toEqual([]);
      expect(await readdir(sandbox.state(''))).toEqual(['home-id']);
      expect(await readdir(sandbox.path)).not.toContain('started-1');
    });
  });

  test('a relaunch, and finished tasks that wait for teardown, are told in one line each', async ({
    sandbox,
    terminal,
  }) => {
    terminal.enter('task-spawn a -- true; echo "[status $?]"');
    expect(await terminal.shows(/\[status 0\]/)).not.toContain('task-spawn:');
    const created = (await sandbox.record('a'))?.created_at as string;
    terminal.enter('task-spawn b -- true; echo "[status $?]"');
    expect(await terminal.shows(/\[status 0\]/)).toContain(
      'task-spawn: 1 finished task waits for task-teardown: see task-status',
    );
    terminal.enter('task-spawn a -- true; echo "[status $?]"');
    expect(await terminal.shows(/\[status 0\]/)).toContain(
      `task-spawn: a: relaunched; its directory is kept since ${created}`,
    );
  });
});
