/**
 * removeTree: takes away any tree a task can have made, and touches nothing outside it (design section 8). One walker
 * (walk.ts) begins; a tree that takes longer gets a crew (crew.ts), which parts it between threads; what the parts leave
 * behind, empty folders and what cannot go, is for a last walk by one walker alone, which is the one that reports.
 */

import { dirname } from 'node:path';
import type { Crew } from './crew.ts';
import { TaskError } from './errors.ts';
import { fstatSync, lstatSync, statfsSync } from './fs.ts';
import { type Identity, isIdentity } from './identity.ts';
import type { KeptEntry } from './kept.ts';
import { nextTurn, sleep } from './turn.ts';
import { type Sharing, Walk } from './walk.ts';
import { BY_DESCRIPTOR, DESCRIPTORS, type Name } from './walk-folder.ts';

export interface Removed {
  /** Removed entries, the root included. */
  readonly entries: number;
  /**
   * Bytes on disk that their removal freed (hard links elsewhere keep theirs). Counted file by file until a crew is
   * needed; from then on it is by how much the free space of the file system grew, whoever else uses it.
   */
  readonly bytes: number;
}

export interface Removal extends Removed {
  /** The first of what could not go. */
  readonly kept: readonly KeptEntry[];
  readonly keptCount: number;
  /** Whether `stop` ended it early. */
  readonly stopped: boolean;
}

export interface RemoveOptions {
  readonly uid: number;
  /** Asked between entries; true ends the walk where it is. */
  readonly stop: () => boolean;
  /** Called now and then with what is removed so far. */
  readonly onProgress?: ((removed: Removed) => void) | undefined;
  /** What stands before a descriptor in a path; DESCRIPTORS by default. Never anything else that goToDescriptors did not give. */
  readonly prefix?: string | undefined;
  /** From how many entries on a crew may start; FEW by default. */
  readonly crewFrom?: number | undefined;
}

/** A tree of fewer entries, or one that is gone after so many milliseconds, is not worth a thread. */
const FEW = 256;
const CREW_AFTER = 10;
/** Entries between two turns of the event loop, in which signals are heard; on a slow file system so many milliseconds. */
const TURN = 256;
const LONGEST = 20;
/** Entries between two looks at the clock. */
const LOOK = 8;
/** How often the end of the others is looked for, in milliseconds. */
const INTERVAL = 1;
/** How long walkers that were told to stop may take, in milliseconds: a file system that hangs must not hold us too. */
const PATIENCE = 1000;

/** Removes the tree at `root`, which must be the directory of that identity. @throws TaskError NOT_OURS when it is not. */
export async function removeTree(root: string, identity: Identity, options: RemoveOptions): Promise<Removal> {
  const run = new Run(root, identity, options);
  try {
    let walk = await run.walkAll();
    await run.endCrew();
    if (walk.deferred) walk = await run.walkAll();
    return { ...run.removed, kept: walk.kept, keptCount: walk.keptCount, stopped: run.stopped };
  } finally {
    await run.endCrew();
  }
}

class Run {
  stopped = false;
  readonly #root: string;
  readonly #identity: Identity;
  readonly #options: RemoveOptions;
  readonly #prefix: string;
  readonly #begin = performance.now();
  #turned = performance.now();
  #entries = 0;
  #bytes = 0;
  /** undefined before it is started, null when it has ended. */
  #crew: Crew | undefined | null;
  /** The free space when the crew started, in bytes. */
  #freeBefore: number | undefined;
  readonly #sharing: Sharing = {
    wanted: () => this.#crew?.board.sharing.wanted() ?? false,
    give: (fd, entries) => this.#crew?.board.sharing.give(fd, entries) ?? 0,
  };

  constructor(root: string, identity: Identity, options: RemoveOptions) {
    this.#root = root;
    this.#identity = identity;
    this.#options = options;
    this.#prefix = options.prefix ?? DESCRIPTORS;
  }

  get removed(): Removed {
    const [before, now] = this.#crew === undefined ? [] : [this.#freeBefore, freeSpace(this.#root)];
    const freed = before === undefined || now === undefined ? 0 : Math.max(0, now - before);
    return { entries: this.#entries + (this.#crew?.board.removed ?? 0), bytes: this.#bytes + freed };
  }

  /** Walks the whole tree, and then takes parts of what others have, until all is walked. */
  async walkAll(): Promise<Walk> {
    const whole = this.#newWalk();
    whole.enterRoot((fd) => {
      if (!isIdentity(fstatSync(fd, { bigint: true }), this.#identity))
        throw new TaskError('NOT_OURS', 'it was exchanged for another directory: that one is untouched');
    });
    await this.#go(whole);
    const board = this.#crew?.board;
    board?.enlist(0);
    while (board && board.active > 0 && !this.#isStopped()) {
      const part = board.take(0);
      if (part) {
        const walk = this.#newWalk();
        walk.enterPart(part.fd, part.entries);
        await this.#go(walk);
        board.done(0);
      } else await sleep(INTERVAL);
    }
    return whole;
  }

  /** Lets the others go, if there are any; what they removed is counted. */
  async endCrew(): Promise<void> {
    const crew = this.#crew;
    if (!crew) return;
    // Ours first: what was given to us meanwhile is for the last walk.
    crew.board.dismiss(0);
    for (const end = performance.now() + PATIENCE; crew.board.active > 0 && performance.now() < end; ) {
      crew.board.stop();
      await sleep(INTERVAL);
    }
    crew.dismiss();
    this.#entries += crew.board.removed;
    this.#crew = null;
  }

  #newWalk(): Walk {
    return new Walk({
      root: this.#root,
      uid: this.#options.uid,
      prefix: this.#prefix,
      sharing: this.#sharing,
      // One more call for each file would cost a large tree a third of its time (measured).
      weigh: (path) => (this.#crew === undefined ? weigh(path) : 0),
    });
  }

  async #go(walk: Walk): Promise<void> {
    try {
      for (let steps = 1; !walk.isDone && !this.#isStopped(); steps++) {
        walk.step();
        if (steps % TURN === 0 || (steps % LOOK === 0 && performance.now() - this.#turned > LONGEST))
          await this.#turn(walk);
      }
    } finally {
      walk.close();
      this.#add(walk.takeCount());
    }
  }

  async #turn(walk: Walk): Promise<void> {
    await nextTurn();
    this.#turned = performance.now();
    this.#add(walk.takeCount());
    this.#options.onProgress?.(this.removed);
    await this.#callCrew();
  }

  /** Starts the crew when it is time, and lets it look after itself. */
  async #callCrew(): Promise<void> {
    const { crewFrom = FEW, uid } = this.#options;
    if (this.#crew) this.#crew.pulse(this.#entries + this.#crew.board.removed);
    const isEarly = this.#entries < crewFrom || performance.now() - this.#begin < CREW_AFTER;
    if (this.#crew !== undefined || !BY_DESCRIPTOR || isEarly) return;
    const { Crew } = await import('./crew.ts');
    this.#freeBefore = freeSpace(this.#root);
    this.#crew = new Crew({ root: this.#root, uid, prefix: this.#prefix });
  }

  #isStopped(): boolean {
    this.stopped ||= this.#options.stop();
    return this.stopped;
  }

  #add({ entries, bytes }: { readonly entries: number; readonly bytes: number }): void {
    this.#entries += entries;
    this.#bytes += bytes;
  }
}

/** What the removal of a file frees, in bytes. */
function weigh(path: Name): number {
  try {
    const stat = lstatSync(path, { throwIfNoEntry: false });
    return stat?.nlink === 1 ? stat.blocks * 512 : 0;
  } catch {
    return 0;
  }
}

/** Of the file system that a root is, or was, on; in bytes. Undefined where that cannot be read. */
function freeSpace(root: string): number | undefined {
  try {
    const { bfree, bsize } = statfsSync(dirname(root));
    return bfree * bsize;
  } catch {
    return undefined;
  }
}
