/** A mount namespace of its own, for file systems of any size and kind; what is mounted in it vanishes with it. Root only. */
import { once } from 'node:events';
import { execa, type Options, type ResultPromise } from 'execa';
import type { Outcome, RunOptions, Sandbox } from './sandbox.ts';

export class MountSpace {
  readonly #holder: ResultPromise;
  readonly #sandbox: Sandbox;

  private constructor(holder: ResultPromise, sandbox: Sandbox) {
    this.#holder = holder;
    this.#sandbox = sandbox;
  }

  /** Runs `script` (mounts) in a new namespace and keeps that until `close`. */
  static async open(sandbox: Sandbox, script: string): Promise<MountSpace> {
    const settings: Options = { cwd: sandbox.path, reject: false, buffer: false };
    const holder: ResultPromise = execa('unshare', ['-m', 'sh', '-ec', `${script}\necho ready\ncat`], settings);
    const [text] = (await Promise.race([
      once(holder.stdout as NodeJS.ReadableStream, 'data'),
      once(holder, 'close').then(() => ['the mounts failed']),
    ])) as [unknown];
    if (!String(text).startsWith('ready')) throw new Error(String(text));
    return new MountSpace(holder, sandbox);
  }

  /** How the test itself reaches a path of the namespace. */
  at(path: string): string {
    return `/proc/${this.#holder.pid}/root${path}`;
  }

  run(command: string, args: readonly string[], options: RunOptions = {}): Promise<Outcome> {
    const words = [`--target=${this.#holder.pid}`, '--mount', `--wd=${this.at(this.#sandbox.path)}`, command, ...args];
    return this.#sandbox.run('nsenter', words, options);
  }

  async close(): Promise<void> {
    this.#holder.stdin?.end();
    await this.#holder;
  }
}
