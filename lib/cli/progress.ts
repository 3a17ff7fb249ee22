/** What a removal that takes longer than a second shows on a terminal: one line, replaced as it goes on. */
import type { SingleBar } from 'cli-progress';
import { readFileSync } from '../fs.ts';
import { lazyRequire } from '../lazy.ts';
import type { Removed } from '../remove.ts';
import { formatBytes } from '../text.ts';

/** A removal is silent for so long, and then between two lines, in milliseconds. */
const SILENT = 1000;
const PAUSE = 100;

export class Progress {
  readonly #id: string;
  readonly #begin = performance.now();
  #shown = this.#begin + SILENT - PAUSE;
  #bar: SingleBar | undefined;

  constructor(id: string) {
    this.#id = id;
  }

  readonly show = (removed: Removed): void => {
    const now = performance.now();
    if (now - this.#shown < PAUSE) return;
    this.#shown = now;
    if (!isForeground()) return;
    this.#bar ??= this.#open();
    this.#bar.update(removed.entries, { text: this.#text(removed, now - this.#begin) });
  };

  /** Takes the line away: what became of the task is said by others. */
  end(): void {
    if (isForeground()) this.#bar?.stop();
  }

  #open(): SingleBar {
    const { SingleBar } = lazyRequire('cli-progress') as typeof import('cli-progress');
    // A terminal that goes away is no reason to stop: the removal goes on without it.
    process.stderr.on('error', () => {});
    const bar = new SingleBar({
      format: (_options, _params, payload: { text?: string }) => payload.text ?? '',
      stream: process.stderr,
      clearOnComplete: true,
      // No mode of the terminal is changed: a SIGKILL would leave it so.
      linewrap: true,
      // A signal ends a removal between two entries: that is for the command itself to do.
      gracefulExit: false,
    });
    bar.start(0, 0);
    return bar;
  }

  #text({ entries, bytes }: Removed, elapsed: number): string {
    const rate = Math.round((entries / elapsed) * 1000);
    const [count, speed] = [entries, rate].map((number) => number.toLocaleString('en'));
    return `${this.#id}: removing: ${count} entries, ${formatBytes(bytes)}, ${speed} entries/s`;
  }
}

/** Whether the terminal is ours now: a job in the background would write into what is in front. */
function isForeground(): boolean {
  try {
    const stat = readFileSync('/proc/self/stat', 'latin1');
    const [, , group, , , foreground] = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
    return group === foreground;
  } catch {
    // Not Linux.
    return true;
  }
}
