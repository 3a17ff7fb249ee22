/**
 * Signals to the parent of a launch: one that came to it alone goes on to the child, once; what a terminal sends to the
 * whole foreground group has reached the child already (case B65). Job control signals are left to the kernel.
 */
import { readFileSync } from './fs.ts';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
export class Forwarder {
  #child: number | undefined;
  #pending: NodeJS.Signals | undefined;

  #hadTerminal = false;

  readonly #listener = (signal: NodeJS.Signals) => {
    // The keys reach the foreground group; a hang-up reaches every job, and a terminal that is gone cannot be asked.
    if ((signal === 'SIGINT' || signal === 'SIGQUIT') && readTerminal() === 'foreground') return;
    if (signal === 'SIGHUP' && this.#hadTerminal) return;
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
