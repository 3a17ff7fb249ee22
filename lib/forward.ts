/**
 * Signals to the parent of a launch: one that came to it alone goes on to the child, once; what a terminal sends to the
 * whole foreground group has reached the child already (case B65). Job control signals are left to the kernel.
 */
import { readFileSync } from './fs.ts';
import { SIGNALS } from './signals.ts';

export class Forwarder {
  #child: number | undefined;
  #pending: NodeJS.Signals | undefined;
  #hadTerminal = false;
  #ended = false;
  readonly #teardown = new AbortController();

  readonly #listener = (signal: NodeJS.Signals) => {
    // A hang-up reaches every job of the terminal, and one that is gone cannot be asked.
    if (signal === 'SIGHUP' && this.#hadTerminal) return;
    if (this.#ended) {
      this.#teardown.abort(signal);
      return;
    }
    // The keys reach the foreground group.
    if ((signal === 'SIGINT' || signal === 'SIGQUIT') && readTerminal() === 'foreground') return;
    if (this.#child === undefined) this.#pending ??= signal;
    else send(this.#child, signal);
  };

  listen(): void {
    this.#hadTerminal = readTerminal() !== 'none';
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

  /** The child has ended: its pid means nothing any more, and a signal from here on is for the teardown. */
  end(): AbortSignal {
    this.#ended = true;
    return this.#teardown.signal;
  }

  /** The signal that stopped the teardown, or undefined. */
  get stoppedBy(): NodeJS.Signals | undefined {
    return this.#teardown.signal.aborted ? (this.#teardown.signal.reason as NodeJS.Signals) : undefined;
  }
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch {
    // It has ended meanwhile.
  }
}

/** How we stand to a controlling terminal; without /proc, whether standard input is one has to do. */
function readTerminal(): 'none' | 'background' | 'foreground' {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const [, , group, , tty, foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    if (tty === '0') return 'none';
    return group === foreground ? 'foreground' : 'background';
  } catch {
    return process.stdin.isTTY ? 'foreground' : 'none';
  }
}
