/**
 * More walkers for a large tree. A file system that computes is bound by the processors, one that waits (a disk, a
 * discard) by how many wait at a time: so there is one walker for each processor, and more while they are not kept busy.
 * (Node's own pool of threads would wait for less, but libuv aborts the process where it cannot start one.)
 */
import { join } from 'node:path';
import { CrewBoard, MOST_WALKERS } from './crew-board.ts';
import { lazyRequire } from './lazy.ts';
import type { WorkerData } from './remove-worker.ts';

/** The same file for lib/ and for dist/: a thread runs what was built. */
const WORKER = join(import.meta.dirname, '../dist/remove-worker.cjs');
/** How long the processors are watched before another walker is added, in milliseconds. */
const WATCH = 100;
/** Above this share of the processors' time, or below so many waits for each entry, more walkers would not help. */
const BUSY = 0.7;
const WAITS = 0.5;
/** Heap limits of a walker, in MiB: it holds a few thousand names. */
const LIMITS = { maxYoungGenerationSizeMb: 4, maxOldGenerationSizeMb: 64 };

export class Crew {
  readonly board = new CrewBoard();
  readonly #workers: import('node:worker_threads').Worker[] = [];
  readonly #processors: number;
  readonly #shared: Omit<WorkerData, 'place'>;
  #most = MOST_WALKERS;
  #watched = watch(0);

  constructor(walk: Pick<WorkerData, 'root' | 'uid' | 'prefix'>) {
    const { availableParallelism } = lazyRequire('node:os') as typeof import('node:os');
    this.#processors = Math.min(availableParallelism(), MOST_WALKERS);
    this.#shared = { memory: this.board.memory, ...walk };
    while (this.#workers.length + 1 < Math.min(this.#processors, this.#most)) this.#add();
  }

  /**
   * Called between two turns, with how many entries are removed: adds a walker while the file system is what is waited
   * for. Other programs on the machine make the processors scarce, but they do not make us wait inside a call.
   */
  pulse(entries: number): void {
    const last = this.#watched;
    if (performance.now() - last.time < WATCH) return;
    const now = watch(entries);
    this.#watched = now;
    const isBusy = now.cpu - last.cpu > BUSY * this.#processors * (now.time - last.time);
    const waits = (now.waits - last.waits) / Math.max(1, entries - last.entries);
    if (!isBusy && waits >= WAITS && this.board.waiting === 0 && this.#workers.length + 1 < this.#most) this.#add();
  }

  /** Without another thread (a limit on processes) those that there are do the work. */
  #add(): void {
    try {
      this.#start();
    } catch {
      this.#most = this.#workers.length + 1;
    }
  }

  #start(): void {
    const { Worker } = lazyRequire('node:worker_threads') as typeof import('node:worker_threads');
    const place = this.#workers.length + 1;
    const workerData: WorkerData = { ...this.#shared, place };
    // Descriptors go from thread to thread: none must be closed with the thread that opened it.
    const worker = new Worker(WORKER, {
      workerData,
      resourceLimits: LIMITS,
      trackUnmanagedFds: false,
      // Nothing of the program that calls: not its streams (Node would make a shared pipe O_NONBLOCK), options, environment.
      stdout: true,
      stderr: true,
      execArgv: [],
      env: {},
    });
    this.#workers.push(worker);
    worker.on('error', () => this.board.dismiss(place));
    worker.on('exit', () => this.board.dismiss(place));
  }

  /** Lets all walkers go: each ends when it has done, or stopped, what it is at. */
  dismiss(): void {
    for (const place of this.#workers.keys()) this.board.dismiss(place + 1);
  }
}

/** What this process has used so far: milliseconds, and how often a thread of it gave the processor up by itself. */
function watch(entries: number) {
  const { userCPUTime, systemCPUTime, voluntaryContextSwitches } = process.resourceUsage();
  const cpu = (userCPUTime + systemCPUTime) / 1000;
  return { time: performance.now(), cpu, waits: voluntaryContextSwitches, entries };
}
