/**
 * A private place for one test: a home, a base, and the installed commands run as real processes. Everything in it is
 * gone afterwards, processes included.
 */
import { mkdirSync, readdirSync, readFileSync } from 'node:fs';
import { chmod, chown, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { execa, type Options, type ResultPromise } from 'execa';
import { dir } from 'tmp-promise';
import { test as base, inject } from 'vitest';

export const isRoot = process.geteuid?.() === 0;
/** The other user of tests that root runs as a normal user. */
export const NOBODY = 65_534;

/** What an ended command left: like execa's result, never thrown. */
export interface Outcome {
  readonly status: number | undefined;
  readonly signal: string | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  /** Added to the sandbox's environment; undefined takes a variable away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string;
  /** Run as this uid (root only). */
  readonly uid?: number;
  /** The shell that interprets the shim, such as ['bash', '--posix']. */
  readonly shell?: readonly string[];
  readonly input?: string;
}

/** Whatever else execa takes. */
export type StartOptions = RunOptions & Omit<Options, keyof RunOptions>;

export class Sandbox {
  readonly path: string;
  readonly home: string;
  readonly base: string;
  /** The folder of the installed commands. */
  readonly bin = join(inject('installed'), 'bin');
  readonly env: Record<string, string | undefined>;

  constructor(path: string) {
    this.path = path;
    this.home = join(path, 'home');
    this.base = join(path, 'base');
    const { PATH, HOME } = process.env;
    // Nothing else of the developer's environment: no TMPDIR, no NODE_*, no XDG_*.
    this.env = { PATH: `${this.bin}:${PATH}`, HOME, LC_ALL: 'C', FM_HOME: this.home, FM_TASK_TMP_BASE: this.base };
  }

  /** Starts a command without waiting: an execa process in the sandbox's environment. */
  start(command: string, args: readonly string[], options: StartOptions = {}): ResultPromise {
    const { env, uid, shell, ...rest } = options;
    const words = [...(uid === undefined ? [] : ['setpriv', `--reuid=${uid}`, `--regid=${uid}`, '--clear-groups'])];
    if (shell) words.push(...shell, command.startsWith('task-') ? join(this.bin, command) : command);
    else words.push(command);
    const [file, ...first] = words as [string, ...string[]];
    const merged = Object.fromEntries(
      Object.entries({ ...this.env, ...env }).filter(([, value]) => value !== undefined),
    );
    const settings = {
      cwd: this.path,
      reject: false,
      extendEnv: false,
      env: merged as Record<string, string>,
      ...(rest.input === undefined && !('stdio' in rest) ? { stdin: 'ignore' } : {}),
      ...rest,
    } as Options;
    return execa(file, [...first, ...args], settings);
  }

  async run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const result = await this.start(command, args, options);
    return {
      status: result.exitCode,
      signal: result.signal,
      stdout: String(result.stdout ?? ''),
      stderr: String(result.stderr ?? ''),
    };
  }

  spawn(args: readonly string[], options?: RunOptions): Promise<Outcome> {
    return this.run('task-spawn', args, options);
  }

  teardown(args: readonly string[], options?: RunOptions): Promise<Outcome> {
    return this.run('task-teardown', args, options);
  }

  /** The object that task-status --json prints. */
  async status(): Promise<{ tasks: Record<string, unknown>[]; unrecorded: string[] }> {
    return JSON.parse((await this.run('task-status', ['--json'])).stdout);
  }

  /** A file in the state folder. */
  state(name: string): string {
    return join(this.home, 'state', name);
  }

  /** The record's keys, or undefined where there is none. */
  async record(id: string): Promise<Record<string, string> | undefined> {
    try {
      const text = await readFile(this.state(`${id}.meta`), 'utf8');
      return Object.fromEntries(
        text
          .trimEnd()
          .split('\n')
          .map((line) => [line.slice(0, line.indexOf('=')), line.slice(line.indexOf('=') + 1)]),
      );
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Rewrites a record by hand, as somebody might; values of undefined take the key away. */
  async edit(id: string, changes: Readonly<Record<string, string | undefined>>): Promise<void> {
    const entries = Object.entries({ ...(await this.record(id)), ...changes }).filter(
      ([, value]) => value !== undefined,
    );
    await writeFile(this.state(`${id}.meta`), entries.map(([key, value]) => `${key}=${value}\n`).join(''), {
      mode: 0o600,
    });
  }

  /** Spawns a task that ends at once and gives its root. */
  async finished(id: string, script = ':'): Promise<string> {
    const { status, stderr } = await this.spawn([id, '--', 'sh', '-c', script]);
    if (status !== 0) throw new Error(`spawning ${id} gave ${status}: ${stderr}`);
    return (await this.record(id))?.tasktmp as string;
  }

  /** Gives the sandbox to another user. */
  async giveTo(uid: number): Promise<void> {
    for (const path of [this.path, this.base]) await chown(path, uid, uid);
  }

  /** Ends what still runs in here and removes it all. */
  async dispose(): Promise<void> {
    for (const pid of processesWith(`FM_HOME=${this.home}`)) {
      try {
        process.kill(pid, 'SIGKILL');
      } catch {}
    }
    await execa('chmod', ['-R', 'u+rwx', this.path], { reject: false });
    await execa('rm', ['-rf', '--one-file-system', this.path]);
  }
}

/** The living processes, but for ourselves, whose environment holds an entry that begins so. */
export function processesWith(entry: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => {
      try {
        const dead = /\) [ZX]/.test(readFileSync(`/proc/${name}/stat`, 'latin1'));
        return (
          !dead &&
          readFileSync(`/proc/${name}/environ`, 'latin1')
            .split('\0')
            .some((text) => text.startsWith(entry))
        );
      } catch {
        return false;
      }
    })
    .map(Number);
}

export async function makeSandbox(): Promise<Sandbox> {
  // Under /tmp whatever TMPDIR says: sockets and long names need a short path.
  const { path } = await dir({ tmpdir: '/tmp', prefix: 'ts', keep: true });
  await chmod(path, 0o755);
  const sandbox = new Sandbox(path);
  mkdirSync(sandbox.base, { mode: 0o755 });
  return sandbox;
}

/** `test` with a `sandbox` that is made for it and disposed of after it. */
export const test = base.extend<{ sandbox: Sandbox }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the parameter to find what a fixture depends on
  sandbox: async ({}, use) => {
    const sandbox = await makeSandbox();
    try {
      await use(sandbox);
    } finally {
      await sandbox.dispose();
    }
  },
});
