/** The command cannot tell that it was launched through a prefix: acceptance A12 to A14, E01, E02, E04 to E10, case B77. */
import { closeSync, openSync, readdirSync, readlinkSync } from 'node:fs';
import { mkdir, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import fc from 'fast-check';
import { describe, expect } from 'vitest';
import { BLANKED } from '../../lib/cli/blanked.ts';
import { HELP } from '../../lib/cli/spawn-help.ts';
import { quote } from '../../lib/plan.ts';
import { findPlanner, proc } from '../helpers/planner.ts';
import { hasPython, type RawJob, runRaw } from '../helpers/raw.ts';
import { processesWith, type Sandbox, type StartOptions, test } from '../helpers/sandbox.ts';
import { SHELLS, which } from '../helpers/shells.ts';
import { until } from '../helpers/until.ts';

/** The entries that the prefix adds, for a task that is not pinned. */
const OURS = ['FM_HOME', 'FM_TASK_ID', 'FM_TASK_TMP', 'FM_TASK_TOKEN', 'GOTMPDIR'];
/** Signals that end a process unless it does something about them. */
const DEADLY = Array.from({ length: 64 }, (_, index) => index + 1).filter(
  (number) => ![17, 18, 19, 20, 21, 22, 23, 28, 32, 33].includes(number),
);

const ALL_BYTES = Array.from({ length: 255 }, (_, index) => String.fromCharCode(index + 1)).join('');
const entries = (env: Readonly<Record<string, string | undefined>>) =>
  Object.entries(env).flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`]));
const nameOf = (entry: string) => entry.slice(0, entry.indexOf('='));
/** What `cat /proc/self/environ` prints, sorted. */
const environ = (text: string) => text.split('\0').slice(0, -1).sort();
const absolute = (words: readonly string[]) => [which(words[0] as string) as string, ...words.slice(1)];

/** A job for runRaw that runs a command bare, and the same through the prefix under a shell. */
function pair(
  sandbox: Sandbox,
  shell: readonly string[],
  id: string,
  command: readonly string[],
  more: Partial<RawJob>,
) {
  const env = entries(sandbox.env);
  const prefix = [...(shell.length > 0 ? absolute(shell) : []), join(sandbox.bin, 'task-spawn'), id, '--'];
  const bare: RawJob = { env, ...more, argv: absolute(command) };
  return [bare, { ...bare, argv: [...prefix, ...command] }] as const;
}

/**
 * A PATH whose node prints, at once, the plan that the real one gave for "a -- command": what is tried hundreds of times
 * is then the shim's and the kernel's own work.
 */
async function playback(sandbox: Sandbox, shell: readonly string[]): Promise<string> {
  const folder = join(sandbox.path, 'playback');
  await mkdir(folder);
  const node = (line: string) => writeFile(join(folder, 'node'), `#!/bin/sh\n${line}\n`, { mode: 0o755 });
  const PATH = `${folder}:${sandbox.env.PATH}`;
  await node(`exec '${process.execPath}' "$@" >'${folder}/plan'`);
  await sandbox.spawn(['a', '--', 'true'], { shell, env: { PATH } });
  expect(await readFile(join(folder, 'plan'), 'utf8')).toContain('export FM_TASK_ID=');
  await node(`printf %s ${quote(await readFile(join(folder, 'plan'), 'utf8'))}`);
  return PATH;
}

/** A refused launch leaves no root, no record and no lock. */
async function expectNothing(sandbox: Sandbox): Promise<void> {
  expect(await readdir(sandbox.base)).toEqual([]);
  const state = await readdir(sandbox.state('')).catch(() => ['home-id']);
  expect(state.filter((name) => name !== 'home-id')).toEqual([]);
}

/** Starts a command that stays, gives its pid once it runs, and ends it afterwards. */
async function whileRunning<T>(
  start: ReturnType<Sandbox['start']>,
  program: string,
  look: (pid: number) => T | Promise<T>,
): Promise<T> {
  const pid = start.pid as number;
  try {
    // It sleeps: it is loaded and has closed what the loader opened.
    await until(`${program} runs`, () => proc(pid, 'stat').includes(`(${program}) S`) || start.exitCode !== null);
    return await look(pid);
  } finally {
    start.kill('SIGKILL');
    await start;
  }
}

/** What a process has open, but for the root hold. */
const descriptors = (pid: number) =>
  Object.fromEntries(
    readdirSync(`/proc/${pid}/fd`)
      .map((fd) => [fd, readlinkSync(`/proc/${pid}/fd/${fd}`)] as const)
      .filter(([, target]) => !/\/base\/fm-[0-9a-f]{8}-\w+$/.test(target)),
  );

describe('the end of the command', () => {
  test('E01 exit statuses pass through', async ({ sandbox }) => {
    for (const status of [0, 1, 125, 127, 130, 255]) {
      expect((await sandbox.spawn(['a', '--', 'sh', '-c', `exit ${status}`])).status).toBe(status);
    }
  });

  describe.each(SHELLS)('under $name', ({ name, words }) => {
    const turn = SHELLS.findIndex((shell) => shell.name === name);
    const share = <T>(all: readonly T[]) => all.filter((_, index) => index % SHELLS.length === turn);

    test('E01 its share of all exit statuses passes through, with one plan played back', async ({ sandbox }) => {
      const prefix = [...words(sandbox), join(sandbox.bin, 'task-spawn'), 'a', '--'];
      const statuses = share(Array.from({ length: 256 }, (_, status) => status));
      const loop = `for i in ${statuses.join(' ')}; do "$@" sh -c "exit $i"; echo $?; done`;
      const env = { PATH: await playback(sandbox, words(sandbox)) };
      const { stdout } = await sandbox.run('sh', ['-c', loop, 'sh', ...prefix], { env });
      expect(stdout.split('\n').map(Number)).toEqual(statuses);
    });

    test.skipIf(!hasPython)('E02 death by its share of all signals is death by that signal', async ({ sandbox }) => {
      const env = entries({ ...sandbox.env, PATH: await playback(sandbox, words(sandbox)) });
      const numbers = share(DEADLY);
      const jobs = numbers.map((number) => {
        return pair(sandbox, words(sandbox), 'a', ['sh', '-c', `kill -s ${number} $$`], { env })[1];
      });
      expect(runRaw(jobs).map(({ signal }) => signal)).toEqual(numbers);
    });
  });

  test.skipIf(!hasPython)('E02 signals, planned each time', ({ sandbox }) => {
    const numbers = [2, 9, 11, 15, 34, 64];
    const jobs = numbers.map((number) => pair(sandbox, [], 'a', ['sh', '-c', `kill -s ${number} $$`], {})[1]);
    expect(runRaw(jobs).map(({ signal }) => signal)).toEqual(numbers);
  });

  test('E02 a command whose reader went away dies of SIGPIPE, as it does bare', async ({ sandbox }) => {
    const script = (command: string) => `${command} | head -1; echo "\${PIPESTATUS[0]}"`;
    for (const command of ['yes', 'task-spawn a -- yes']) {
      expect((await sandbox.run('bash', ['-c', script(command)])).stdout).toBe('y\n141');
    }
    const byShell = await sandbox.run('sh', ['-c', `task-spawn a -- sh -c 'kill -KILL $$'; echo $?`]);
    expect(byShell.stdout).toBe('137');
  });
});

describe('before the command', () => {
  const refused = (title: string, words: string[], status: number, message: RegExp) =>
    test(`B77 ${title}: ${status}, one line, nothing left behind`, async ({ sandbox }) => {
      await mkdir(join(sandbox.path, 'folder'));
      await writeFile(join(sandbox.path, 'plain'), 'text', { mode: 0o644 });
      await writeFile(join(sandbox.path, 'lost'), '#!/no/such/interpreter -x\n', { mode: 0o755 });
      await writeFile(join(sandbox.path, 'crlf'), '#!/bin/sh\r\necho\r\n', { mode: 0o755 });
      const outcome = await sandbox.spawn(words);
      expect(outcome.stderr).toMatch(message);
      expect(outcome.stderr.split('\n')).toHaveLength(1);
      expect(outcome.status).toBe(status);
      expect(outcome.stdout).toBe('');
      await expectNothing(sandbox);
    });

  refused('a missing command', ['a', '--', 'no-such-command'], 127, /no-such-command: command not found/);
  refused('a missing path', ['a', '--', './no/such'], 127, /command not found/);
  refused('an empty command', ['a', '--', ''], 127, /"": command not found/);
  refused('a file that is not executable', ['a', '--', './plain'], 126, /cannot be executed.*chmod/);
  refused('a directory', ['a', '--', './folder'], 126, /is a directory/);
  refused('a missing interpreter', ['a', '--', './lost'], 126, /interpreter \/no\/such\/interpreter does not exist/);
  refused('an interpreter with a carriage return', ['a', '--', './crlf'], 126, /interpreter "\/bin\/sh\\r"/);
  refused('no command', ['a'], 125, /no command/);
  refused('no command after the mark', ['a', '--'], 125, /no command after "--"/);
  refused('no id', [], 125, /no id/);
  refused('a missing mark', ['a', 'make', 'all'], 125, /put "--" before the command: task-spawn a -- make all/);
  refused('two ids', ['a', 'b', '--', 'true'], 125, /one id, please/);
  refused('an unknown option', ['--nonsense', 'a', '--', 'true'], 125, /--nonsense/);
  refused('both pins', ['--pin', '--no-pin', 'a', '--', 'true'], 125, /contradict/);

  test('B77 a current directory that is gone is told apart from a missing command', async ({ sandbox }) => {
    const script = 'mkdir gone && cd gone && rmdir ../gone && exec task-spawn a -- no-such-command';
    const { status, stderr } = await sandbox.run('sh', ['-c', script]);
    expect(stderr).toMatch(/the current directory no longer exists/);
    expect(status).toBe(125);
    await expectNothing(sandbox);
  });

  test('B77 a command that is not the first of its name on PATH but the first that can be executed', async ({
    sandbox,
  }) => {
    for (const name of ['one', 'two']) await mkdir(join(sandbox.path, name));
    await writeFile(join(sandbox.path, 'one/tool'), '#!/bin/sh\necho one\n', { mode: 0o644 });
    await writeFile(join(sandbox.path, 'two/tool'), '#!/bin/sh\necho two\n', { mode: 0o755 });
    const env = { PATH: `${sandbox.path}/one:${sandbox.path}/two:${sandbox.env.PATH}` };
    expect(await sandbox.spawn(['a', '--', 'tool'], { env })).toMatchObject({ status: 0, stdout: 'two' });
  });

  describe.each(SHELLS)('under $name', ({ words }) => {
    test('A20 an exec that fails after all leaves a dead task on record and its own status', async ({ sandbox }) => {
      // The plan is given while the command is there; env(1) or the shell finds it gone.
      await writeFile(join(sandbox.path, 'junk'), Buffer.from([0x7f, 0x45, 0x4c, 0x46, 0, 1, 2]), { mode: 0o755 });
      const { status } = await sandbox.spawn(['a', '--', join(sandbox.path, 'junk')], {
        shell: words(sandbox),
        env: { BASHOPTS: 'execfail' },
      });
      expect([126, 127, 2]).toContain(status);
      expect(await sandbox.record('a')).toMatchObject({ state: 'active' });
      expect((await sandbox.teardown(['a'])).status).toBe(0);
    });
  });
});

describe('what the command inherits', () => {
  test('E04 descriptors 3 to 20 reach the command, and no other but the root hold', async ({ sandbox }) => {
    const file = join(sandbox.path, 'file');
    await writeFile(file, '');
    const fd = openSync(file, 'r');
    try {
      for (const last of [5, 20]) {
        const stdio = ['ignore', 'ignore', 'ignore', ...Array.from({ length: last - 2 }, () => fd)];
        const options = { stdio: stdio as unknown as NonNullable<StartOptions['stdio']> };
        const bare = await whileRunning(sandbox.start('sleep', ['600'], options), 'sleep', descriptors);
        for (const { name, words } of SHELLS) {
          const start = sandbox.start('task-spawn', [`a${last}`, '--', 'sleep', '600'], {
            ...options,
            shell: words(sandbox),
          });
          const seen = await whileRunning(start, 'sleep', descriptors);
          // A limit: with 3 to 9 all in use dash leaves its own descriptor of the script open.
          if (name === 'dash' && last > 8) delete seen[last + 1];
          expect(seen, `${name}, 3 to ${last}`).toEqual(bare);
        }
      }
    } finally {
      closeSync(fd);
    }
  });

  describe.each(SHELLS)('under $name', ({ words }) => {
    test.skipIf(!hasPython)('E05 ignored signals stay ignored, and nohup holds', ({ sandbox }) => {
      const shell = words(sandbox);
      const show = ['grep', '^Sig[BIC]', '/proc/self/status'];
      const ignored = [1, 2, 3, 13, 15, 34, 64];
      const [bare, ours, ...others] = runRaw([
        ...pair(sandbox, shell, 'a', show, {}),
        ...pair(sandbox, shell, 'a', show, { ignored }),
        ...pair(sandbox, ['nohup', ...shell], 'a', show, {}),
        { argv: absolute(['nohup', ...show]), env: entries(sandbox.env) },
      ]);
      expect(ours?.stdout).toContain('SigIgn');
      expect(ours).toEqual(bare);
      expect(others[1]).toEqual(others[0]);
      expect(others[3]?.stdout).toBe(others[4]?.stdout);
      expect(others[3]?.stdout).not.toBe(bare?.stdout);
    });

    test('E06 standard input is the command’s alone, byte by byte', async ({ sandbox }) => {
      const shim = `${words(sandbox).join(' ')} ${join(sandbox.bin, 'task-spawn')}`;
      const script = `${shim} a -- sh -c 'read line; echo "$line"'; cat`;
      expect((await sandbox.run('sh', ['-c', script], { input: 'one\ntwo\nthree' })).stdout).toBe('one\ntwo\nthree');
    });

    test('E06 E07 closed standard descriptors stay closed', async ({ sandbox }) => {
      for (const closed of ['<&-', '>&- 2>&-', '<&- >&- 2>&-']) {
        const shell = words(sandbox);
        const prefix = [...shell, join(sandbox.bin, 'task-spawn'), 'a', '--'];
        const start = (command: readonly string[]) =>
          whileRunning(
            sandbox.start('sh', ['-c', `exec "$@" ${closed}`, 'sh', ...command, 'sleep', '600'], {
              stdio: 'ignore',
            }),
            'sleep',
            descriptors,
          );
        expect(await start(prefix), closed).toEqual(await start([]));
      }
    });

    test('E07 nothing of ours is on standard output, nor on standard error', async ({ sandbox }) => {
      const shell = words(sandbox);
      for (const relaunch of [1, 2]) {
        const outcome = await sandbox.spawn(['a', '--', 'true'], { shell });
        expect(outcome, `launch ${relaunch}`).toEqual({ status: 0, signal: undefined, stdout: '', stderr: '' });
      }
    });

    test('E08 E09 the command has the pid that the caller sees, and no process of ours lives beside it', async ({
      sandbox,
    }) => {
      const start = sandbox.start('task-spawn', ['a', '--', 'sleep', '600'], { shell: words(sandbox) });
      await whileRunning(start, 'sleep', async (pid) => {
        expect((await sandbox.record('a'))?.pid).toBe(String(pid));
        await until('the planner is gone', () => findPlanner(sandbox, 'a') === undefined);
        expect(processesWith(`FM_HOME=${sandbox.home}`)).toEqual([pid]);
        expect(proc(pid, `task/${pid}/children`)).toBe('');
      });
    });

    test.skipIf(!hasPython)('E10 the environment is the caller’s byte for byte', ({ sandbox }) => {
      const shell = words(sandbox);
      const normal = entries(sandbox.env);
      const here = [...normal, `PWD=${sandbox.path}`, 'SHLVL=7'];
      const functions = ['cd', 'test', 'command', 'kill', 'printf', 'node', 'env', 'nice', 'ts__die'];
      const cases: Record<string, string[]> = {
        'nothing that a shell would change': [...here, 'X=\xff\xfe\x80\x81\x88', `Z=${ALL_BYTES}`, '_=/what/ever'],
        'no PWD, no SHLVL': normal,
        'wrong PWD and SHLVL': [...normal, 'PWD=/somewhere/else', 'OLDPWD=/no/such', 'SHLVL=05'],
        'empty PWD and SHLVL': [...normal, 'PWD=', 'SHLVL=', 'OLDPWD='],
        'names that are no identifiers, functions named like what the shim calls': [
          ...here,
          ...['a.b=1', 'a-b=', '-x=1', '1=2', '\xff\xfe=1', 'BASH_FUNC_x%%=() {  echo hi\n}'],
          ...functions.map((name) => `BASH_FUNC_${name}%%=() {  exit 3\n}`),
        ],
        'bytes in a UTF-8 locale': [
          ...here.filter((entry) => !entry.startsWith('LC_ALL')),
          ...['LC_ALL=C.UTF-8', 'x.y=\xff\xfe\x80', 'Y=\xc3', 'Y.z=\xc3'],
        ],
        'names that shells treat specially, options for bash': [
          ...here,
          ...['IFS=x', 'OPTIND=5', 'PPID=1', 'LINENO=3', 'RANDOM=5', 'PS1=p', 'PS4=q', 'ENV=/no/such', 'UID=5'],
          ...['BASH_ENV=/no/such', 'POSIXLY_CORRECT=1', 'HISTCMD=1', 'MAILCHECK=x', 'BASHOPTS=execfail:extglob'],
          'SHELLOPTS=allexport:errexit:noglob:nounset:pipefail:monitor',
        ],
        'names that the shim uses, blanks or sets': [
          ...here,
          ...['ts__plan=1', 'ts__node=2', 'ts__status=3', 'ts__signal=4', 'ts__other=5'],
          ...BLANKED.map((name) => `${name}=/no/such`),
          ...['FM_TASK_ID=outer', 'FM_TASK_TOKEN=t', 'FM_TASK_TMP=/tmp/x', 'GOTMPDIR=/tmp/y'],
          ...[`LONG=${'x'.repeat(100_000)}`, `odd.long=${'y'.repeat(100_000)}`],
        ],
        'a name that stands twice': [...here, 'A=first', 'B=0', 'A=second', 'a.b=first', 'a.b=second'],
      };
      const print = ['cat', '/proc/self/environ'];
      const names = Object.keys(cases);
      const jobs = Object.values(cases).flatMap((env) => pair(sandbox, shell, 'a', print, { env, cwd: sandbox.path }));
      const results = runRaw(jobs);
      names.forEach((name, index) => {
        const [bare, ours] = [results[2 * index], results[2 * index + 1]];
        expect(ours?.status, `${name}: ${ours?.stderr}`).toBe(0);
        const seen = environ(ours?.stdout ?? '');
        const given = environ(bare?.stdout ?? '');
        const others = (list: string[]) => list.filter((entry) => !OURS.includes(nameOf(entry)));
        // Of a name that stands twice the first, which getenv(3) finds, is kept.
        const first = given.filter((entry) => !entry.endsWith('=second'));
        expect(others(seen), name).toEqual(others(first));
        expect(seen.filter((entry) => OURS.includes(nameOf(entry))).map(nameOf), name).toEqual(OURS);
      });
    });

    test('B75 limits, umask, priority and the rest of the process state are kept', async ({ sandbox }) => {
      const set = 'umask 027; ulimit -n 300; ulimit -c 0; ulimit -s 4096; exec nice -n 3 "$@"';
      const show =
        'cat /proc/self/limits; grep -E "^(Umask|Sig|Cap|NoNew|Seccomp|Cpus|Mems|Groups)" /proc/self/status; nice; umask; cut -d" " -f5-8,41 /proc/self/stat';
      const look = (prefix: readonly string[]) => sandbox.run('sh', ['-c', set, 'sh', ...prefix, 'sh', '-c', show]);
      const bare = await look([]);
      const ours = await look([...words(sandbox), join(sandbox.bin, 'task-spawn'), 'a', '--']);
      const stable = (text: string) =>
        text
          .split('\n')
          .filter((line) => !line.includes('Max pending'))
          .join('\n')
          .replace(/^\d+ \d+ /gm, '')
          // Counts the queued signals of all processes of the user.
          .replace(/^SigQ:.*$/m, '');
      expect(ours.status).toBe(0);
      expect(stable(ours.stdout)).toBe(stable(bare.stdout));
    });

    test('E10 NODE_CHANNEL_FD and a parent that talks over IPC reach a Node command', async ({ sandbox }) => {
      const script = 'process.once("message", (m) => { process.send({ got: m }, () => process.disconnect()); });';
      const start = sandbox.start('task-spawn', ['a', '--', process.execPath, '-e', script], {
        shell: words(sandbox),
        ipc: true,
      });
      await start.sendMessage?.('hello');
      expect(await start.getOneMessage?.()).toEqual({ got: 'hello' });
      expect((await start).exitCode).toBe(0);
    });

    test('E10 a command found by a relative name or PATH sees the $0 it would see bare', async ({ sandbox }) => {
      const shell = words(sandbox);
      await mkdir(join(sandbox.path, 'rel'));
      for (const file of ['s0', 'rel/s1', '=x', 'rel/-d', 'rel/k=v'])
        await writeFile(join(sandbox.path, file), '#!/bin/sh\necho "$0" "$@"\n', { mode: 0o755 });
      const env = { PATH: `rel:${sandbox.env.PATH}` };
      const commands: [string[], string][] = [
        [['./s0', 'x'], './s0 x'],
        [['s1', '--', 'y'], 'rel/s1 -- y'],
        [['-d', '-n'], 'rel/-d -n'],
        [['k=v', 'a=b'], 'rel/k=v a=b'],
        [[join(sandbox.path, '=x')], join(sandbox.path, '=x')],
      ];
      for (const [command, printed] of commands) {
        const outcome = await sandbox.spawn(['a', '--', ...command], { shell, env });
        expect(outcome, command.join(' ')).toEqual({ status: 0, signal: undefined, stdout: printed, stderr: '' });
      }
      // The same with an environment that needs env(1), which takes a "=" in the first word for an assignment.
      const odd = await sandbox.spawn(['a', '--', 'k=v', 'a=b'], { shell, env: { ...env, 'a.b': '1' } });
      expect(odd).toMatchObject({ status: 0, stdout: 'rel/k=v a=b' });
    });
  });
});

describe('A14 the arguments arrive byte for byte', () => {
  const SHOW = ['sh', '-c', 'cat "/proc/$$/cmdline"; :', 'sh'];

  test('whatever text they hold', async ({ sandbox }) => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(
          fc
            .oneof(fc.string({ unit: 'binary' }), fc.constantFrom('', '--', '-n', "'", '$(x)', '*', '\n', '\\', '%s'))
            .map((text) => text.replaceAll('\0', '')),
        ),
        async (args) => {
          const { stdout } = await sandbox.spawn(['a', '--', ...SHOW, ...args]);
          expect(stdout).toBe(`${[...SHOW, ...args].join('\0')}\0`);
        },
      ),
      { numRuns: 15 },
    );
  });

  describe.each(SHELLS)('under $name', ({ words }) => {
    test.skipIf(!hasPython)('all bytes, and what a shell would act on', ({ sandbox }) => {
      const lists = [
        [
          ...ALL_BYTES,
          ALL_BYTES,
          '',
          '--',
          '-n',
          '-x',
          '\xff\xfe',
          'a\nb',
          '$(echo x)',
          '`echo x`',
          '*',
          "'",
          '"',
          '\\',
          '~',
          '!!',
          '#',
        ],
        ['\x81\x88\x82', '\xc3', 'x'.repeat(131_000), ...Array.from({ length: 3000 }, (_, index) => String(index))],
      ];
      const env = [...entries(sandbox.env), 'odd.name=1'];
      for (const environment of [[...entries(sandbox.env), 'SHLVL=1', `PWD=${process.cwd()}`], env]) {
        const results = runRaw(
          lists.map((list) => pair(sandbox, words(sandbox), 'a', [...SHOW, ...list], { env: environment })[1]),
        );
        results.forEach((result, index) => {
          expect(
            result.stdout === `${[...SHOW, ...(lists[index] as string[])].join('\0')}\0`,
            `list ${index}: ${result.stderr}`,
          ).toBe(true);
        });
      }
    });

    test.skipIf(!hasPython)('a command whose name is not UTF-8 is found', ({ sandbox }) => {
      const file = Buffer.concat([Buffer.from(`${sandbox.path}/`), Buffer.from([0xff, 0xfe])]);
      const [made] = runRaw([{ argv: ['/bin/ln', '-s', '/bin/echo', file.toString('latin1')], env: [] }]);
      expect(made?.status).toBe(0);
      const path = `PATH=${sandbox.path}:${sandbox.env.PATH}`;
      const jobs = ['\xff\xfe', file.toString('latin1')].map(
        (name) =>
          pair(sandbox, words(sandbox), 'a', [name, 'hi'], {
            env: [...entries(sandbox.env).filter((e) => !e.startsWith('PATH=')), path],
          })[1],
      );
      for (const result of runRaw(jobs)) expect(result).toMatchObject({ status: 0, stdout: 'hi\n' });
    });
  });
});

describe('the task’s variables', () => {
  const PRINT = ['sh', '-c', `for n in ${[...OURS, 'TMPDIR'].join(' ')}; do eval "echo $n=\\"\\\${$n-unset}\\""; done`];
  const read = (stdout: string) => Object.fromEntries(stdout.split('\n').map((line) => line.split('=')));

  test('A12 the record names the derived root, gotmp is in it and exported', async ({ sandbox }) => {
    const { stdout } = await sandbox.spawn(['a', '--', ...PRINT]);
    const record = await sandbox.record('a');
    const root = record?.tasktmp as string;
    expect(root).toMatch(new RegExp(`^${sandbox.base}/fm-[0-9a-f]{8}-a$`));
    expect(await readdir(root)).toEqual(['gotmp']);
    expect(read(stdout)).toEqual({
      FM_HOME: sandbox.home,
      FM_TASK_ID: 'a',
      FM_TASK_TMP: root,
      FM_TASK_TOKEN: record?.token,
      GOTMPDIR: `${root}/gotmp`,
      TMPDIR: 'unset',
    });
  });

  test('A13 the pin sets TMPDIR, both ways, by flag and by option', async ({ sandbox }) => {
    const tmpdir = async (args: readonly string[], given: string | undefined) => {
      const { stdout, stderr, status } = await sandbox.spawn([...args, '--', ...PRINT], { env: { TMPDIR: given } });
      expect(status, stderr).toBe(0);
      const { TMPDIR, FM_TASK_TMP } = read(stdout);
      return TMPDIR === FM_TASK_TMP ? 'the root' : TMPDIR;
    };
    for (const given of [undefined, '/no/such']) {
      const same = given ?? 'unset';
      expect(await tmpdir(['a'], given)).toBe(same);
      expect((await sandbox.record('a'))?.tmpdir_pin).toBe('0');
      expect(await tmpdir(['--pin', 'a'], given)).toBe('the root');
      expect((await sandbox.record('a'))?.tmpdir_pin).toBe('1');
      await mkdir(join(sandbox.home, 'config'), { recursive: true });
      const flag = join(sandbox.home, 'config/task-tmpdir-pin');
      await writeFile(flag, 'off\n');
      expect(await tmpdir(['a'], given)).toBe('the root');
      expect(await tmpdir(['--no-pin', 'a'], given)).toBe(same);
      await rm(flag);
      await mkdir(flag);
      expect(await tmpdir(['a'], given)).toBe(same);
      await rm(flag, { recursive: true });
      await symlink('/etc/hostname', flag);
      expect(await tmpdir(['a'], given)).toBe('the root');
      await rm(flag);
    }
  });
});

describe('Node', () => {
  const DISTURBING = {
    ...Object.fromEntries(BLANKED.map((name) => [name, '/no/such'])),
    NODE_OPTIONS: '--bad',
    NODE_CHANNEL_FD: '77',
    NODE_DEBUG: 'fs,module',
  };

  test('issue 2: what would make Node fail or talk has no effect', async ({ sandbox }) => {
    const silent = { status: 0, stdout: '', stderr: '' };
    expect(await sandbox.spawn(['a', '--', 'true'], { env: DISTURBING })).toMatchObject(silent);
    const teardown = await sandbox.teardown(['a'], { env: DISTURBING });
    expect(teardown).toMatchObject({ status: 0, stdout: '' });
    expect(teardown.stderr.split('\n')).toHaveLength(1);
    expect(await sandbox.run('task-status', ['--json'], { env: DISTURBING })).toMatchObject({ status: 0, stderr: '' });
  });

  test('the shims blank what lib/cli/spawn.ts says they blank', async ({ sandbox }) => {
    for (const name of ['task-spawn', 'task-teardown', 'task-status']) {
      const shim = (await readFile(join(sandbox.bin, name), 'utf8')).replaceAll('\\\n', ' ');
      const line = /^ *(?:export TMPDIR=|unset TMPDIR ).*$/m.exec(shim)?.[0] ?? '';
      expect(line.trim().replaceAll('=', '').split(/\s+/).slice(1), name).toEqual([...BLANKED]);
    }
  });

  /** A PATH with these programs and no other. */
  async function onlyPath(sandbox: Sandbox, programs: Readonly<Record<string, string>>): Promise<string> {
    const folder = join(sandbox.path, 'only');
    await mkdir(folder, { recursive: true });
    for (const [name, target] of Object.entries(programs)) await symlink(target, join(folder, name));
    return folder;
  }

  test('that is missing: one line, 125 and 78', async ({ sandbox }) => {
    const PATH = await onlyPath(sandbox, {});
    for (const [name, status] of [
      ['task-spawn', 125],
      ['task-teardown', 78],
      ['task-status', 78],
    ] as const) {
      const outcome = await sandbox.run(join(sandbox.bin, name), ['a', '--', '/bin/true'], { env: { PATH } });
      expect(outcome).toMatchObject({ status, stdout: '' });
      expect(outcome.stderr).toMatch(new RegExp(`^${name}: node is not on PATH: install Node 20.19 or later$`));
    }
    await expectNothing(sandbox);
  });

  test('that is too old: one line, 125 and 78', async ({ sandbox }) => {
    await mkdir(join(sandbox.path, 'old'));
    const fake = `Object.defineProperty(process.versions, 'node', { value: '18.20.4' });`;
    await writeFile(join(sandbox.path, 'old/fake.cjs'), fake);
    const script = `#!/bin/sh\nexec '${process.execPath}' -r '${sandbox.path}/old/fake.cjs' "$@"\n`;
    await writeFile(join(sandbox.path, 'old/node'), script, { mode: 0o755 });
    const env = { PATH: `${sandbox.path}/old:${sandbox.env.PATH}` };
    for (const [name, status] of [
      ['task-spawn', 125],
      ['task-teardown', 78],
    ] as const) {
      const outcome = await sandbox.run(name, ['a', '--', 'true'], { env });
      expect(outcome).toMatchObject({ status, stdout: '' });
      expect(outcome.stderr).toMatch(new RegExp(`^${name}: Node 18.20.4 is too old: put Node 20.19 or later`));
      expect(outcome.stderr.split('\n')).toHaveLength(1);
    }
    await expectNothing(sandbox);
  });

  test('beside the installed command comes before the one on PATH, through links too', async ({ sandbox }) => {
    const folder = await onlyPath(sandbox, { 'task-spawn': join(sandbox.bin, 'task-spawn') });
    const note = `#!/bin/sh\necho used >>'${sandbox.path}/used'\nexec '${process.execPath}' "$@"\n`;
    await writeFile(join(folder, 'node'), note, { mode: 0o755 });
    const { status } = await sandbox.run(join(folder, 'task-spawn'), ['a', '--', 'true']);
    expect(status).toBe(0);
    expect(await readFile(join(sandbox.path, 'used'), 'utf8')).toBe('used\n');
  });

  test('that dies before the plan is whole: nothing is evaluated, 125', async ({ sandbox }) => {
    const ends = [
      'echo "touch evaluated"; exit 0',
      'echo "touch evaluated"; echo "# task-spawn: end of plan"; exit 1',
      'kill -KILL $$',
    ];
    for (const [index, end] of ends.entries()) {
      const folder = join(sandbox.path, `node${index}`);
      await mkdir(folder);
      await writeFile(join(folder, 'node'), `#!/bin/sh\n${end}\n`, { mode: 0o755 });
      const env = { PATH: `${folder}:${sandbox.env.PATH}` };
      const outcome = await sandbox.spawn(['a', '--', 'touch', 'started'], { env });
      expect(outcome).toMatchObject({ status: 125, stdout: '' });
      expect(outcome.stderr).toMatch(/planning ended early .* nothing was started; see task-status/);
    }
    expect(await readdir(sandbox.path)).not.toContain('evaluated');
    expect(await readdir(sandbox.path)).not.toContain('started');
  });

  test('127 on a PATH that lacks the command; --help and --version go to standard output', async ({ sandbox }) => {
    const PATH = await onlyPath(sandbox, { node: process.execPath });
    const spawn = join(sandbox.bin, 'task-spawn');
    expect((await sandbox.run(spawn, ['a', '--', 'true'], { env: { PATH } })).status).toBe(127);
    await expectNothing(sandbox);
    for (const { words } of SHELLS) {
      const help = await sandbox.spawn(['--help'], { shell: words(sandbox) });
      expect(help).toEqual({ status: 0, signal: undefined, stdout: HELP.trimEnd(), stderr: '' });
    }
    expect((await sandbox.spawn(['--version'])).stdout).toMatch(/^\d+\.\d+\.\d+/);
    expect(await readdir(sandbox.path)).not.toContain('home');
  });
});
