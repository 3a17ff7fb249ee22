/**
 * The abort trap of a spawn: what it made so far and how to take that back, run once, in reverse, and only until the
 * launch is published. It listens before anything is made, and remembers the first signal.
 */

import { TaskError } from './errors.ts';
import { SIGNALS } from './signals.ts';
import { nextTurn } from './turn.ts';

export class AbortTrap {
  readonly #undo: (() => unknown)[] = [];
  readonly #isLauncherGone: () => boolean;
  readonly #ignored: ReadonlySet<string>;
  readonly #abort: AbortSignal | undefined;
  #signal: string | undefined;

  /**
   * `isLauncherGone` says whether the shell that is to become the command has ended; `ignored` names the signals that
   * the caller ignores (nohup): Node itself forgets that when it starts; `abort` is a program's own way to say stop.
   */
  constructor(isLauncherGone: () => boolean, ignored: ReadonlySet<string> = new Set(), abort?: AbortSignal) {
    this.#isLauncherGone = isLauncherGone;
    this.#ignored = ignored;
    this.#abort = abort;
  }

  readonly #remember = (signal: string) => {
    if (!this.#ignored.has(signal)) this.#signal ??= signal;
  };

  listen(): void {
    for (const signal of SIGNALS) process.on(signal, this.#remember);
  }

  /** From here on a signal ends this process as it would any other; one that the caller ignores still does not. */
  unlisten(): void {
    for (const signal of SIGNALS) if (!this.#ignored.has(signal)) process.off(signal, this.#remember);
  }

  /** Between two steps: lets signals be heard. @throws TaskError ABORTED on a signal or without a launching shell. */
  readonly beat = async (): Promise<void> => {
    await nextTurn();
    if (this.#signal !== undefined)
      throw new TaskError('ABORTED', `aborted by ${this.#signal}: the command was not started`);
    if (this.#abort?.aborted) throw new TaskError('ABORTED', 'aborted: nothing was started');
    if (this.#isLauncherGone())
      throw new TaskError('ABORTED', 'the launching shell is gone: the command was not started');
  };

  /** Whether a signal was heard. */
  get signalled(): boolean {
    return this.#signal !== undefined || (this.#abort?.aborted ?? false);
  }

  /** Adds what takes the last step back; a promise is awaited. */
  readonly arm = (undo: () => unknown): void => {
    this.#undo.push(undo);
  };

  /** The launch is published: nothing is taken back any more. */
  disarm(): void {
    this.#undo.length = 0;
  }

  /** Takes back what was armed, last first. @throws what an undo throws; those before it are then not run. */
  async rollback(): Promise<void> {
    for (let undo = this.#undo.pop(); undo; undo = this.#undo.pop()) await undo();
  }
}
