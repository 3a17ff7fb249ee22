/**
 * Signals to the parent of a launch: one that came to it alone goes on to the child, once; what a terminal sends to the
 * whole foreground group has reached the child already (case B65). Job control signals are left to the kernel.
 */
import { readFileSync } from './fs.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
/** What a terminal sends: by a key, and at its end. */
const FROM_TERMINAL: ReadonlySet<string> = new Set(['SIGINT', 'SIGQUIT', 'SIGHUP']);

export class Forwarder {
  #child: number | undefined;
  #pending: NodeJS.Signals | undefined;

  readonly #listener = (signal: NodeJS.Signals) => {
    if (FROM_TERMINAL.has(signal) && isInForeground()) return;
    if (this.#child === undefined) this.#pending ??= signal;
    else send(this.#child, signal);
  };

  listen(): void {
    for (const signal of SIGNALS) process.on(signal, this.#listener);
  }

  unlisten(): void {
    for (const signal of SIGNALS) process.off(signal, this.#listener);
  }

  /** Names the child; a signal that came before it goes on now. */
  readonly start = (pid: number): void => {
    this.#child = pid;
    if (this.#pending) send(pid, this.#pending);
  };

  /** The child has ended: its pid means nothing any more. */
  end(): void {
    this.#child = undefined;
    this.#pending = undefined;
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

/** Whether we are in the foreground group of our controlling terminal; without /proc, whether standard input is one. */
function isInForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const [, , group, , tty, foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return tty !== '0' && group === foreground;
  } catch {
    return process.stdin.isTTY === true;
  }
}
