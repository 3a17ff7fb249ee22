/**
 * What the walkers of one removal share: who has no work, the part that is handed to each, and the tally. It is shared
 * memory, because a walker that calls the file system synchronously hears no messages.
 */
import { closeSync, constants, openSync } from './fs.ts';
import type { Sharing } from './walk.ts';
import { type Entry, entryOf } from './walk-folder.ts';

/** Walkers at most; a crew has fewer as long as they keep the processors busy. Bounds the memory (docs/bench.md). */
export const MOST_WALKERS = 6;

/** What a walker's place says. */
const ABSENT = 0;
const IDLE = 1;
const BEING_GIVEN = 2;
const GIVEN = 3;
const WORKING = 4;
const DISMISSED = 5;

/** Of a place: its state, the descriptor given, the length of the names given. */
const PLACE = 3;
/** The numbers before the places: 1 when all are to stop; how many are idle; how many parts are not done. */
const STOP = 0;
const WAITING = 1;
const ACTIVE = 2;
const PLACES = 3;
/** Bytes before the names, and for the names of one place. */
const HEAD = 1024;
const ROOM = 64 * 1024;
/** What stands before a name; a zero byte stands behind it. */
const IS_FOLDER = 0x64;
const IS_OTHER = 0x66;

/** A part of a tree: entries of a folder. */
export interface Part {
  /** The taker's to close. */
  readonly fd: number;
  readonly entries: Entry[];
}

export class CrewBoard {
  readonly memory: SharedArrayBuffer;
  readonly #tally: BigInt64Array;
  readonly #numbers: Int32Array;
  readonly #names: Buffer;

  /** A new board, or another thread's. */
  constructor(memory = new SharedArrayBuffer(HEAD + MOST_WALKERS * ROOM)) {
    this.memory = memory;
    this.#tally = new BigInt64Array(memory, 0, 1);
    this.#numbers = new Int32Array(memory, 8, PLACES + MOST_WALKERS * PLACE);
    this.#names = Buffer.from(memory, HEAD);
  }

  get isStopped(): boolean {
    return Atomics.load(this.#numbers, STOP) === 1;
  }

  stop(): void {
    Atomics.store(this.#numbers, STOP, 1);
  }

  /** How many walkers have nothing to do. */
  get waiting(): number {
    return Atomics.load(this.#numbers, WAITING);
  }

  /** How many parts were given and are not done. */
  get active(): number {
    return Atomics.load(this.#numbers, ACTIVE);
  }

  /** How many entries the others have removed. */
  get removed(): number {
    return Number(Atomics.load(this.#tally, 0));
  }

  count(entries: number): void {
    Atomics.add(this.#tally, 0, BigInt(entries));
  }

  readonly sharing: Sharing = {
    wanted: () => Atomics.load(this.#numbers, WAITING) > 0,
    give: (fd, entries) => {
      for (let place = 0; place < MOST_WALKERS; place++) {
        if (!this.#turn(place, IDLE, BEING_GIVEN)) continue;
        Atomics.sub(this.#numbers, WAITING, 1);
        return this.#give(place, fd, entries);
      }
      return 0;
    },
  };

  #give(place: number, fd: number, entries: readonly Entry[]): number {
    let own: number;
    try {
      // A descriptor of its own: ours may be closed, and its number used again, while the taker still works.
      own = openSync(`/proc/self/fd/${fd}`, constants.O_RDONLY | constants.O_DIRECTORY);
    } catch {
      this.#wait(place, BEING_GIVEN);
      return 0;
    }
    const taken = this.#write(place, own, entries);
    Atomics.add(this.#numbers, ACTIVE, 1);
    if (this.#turn(place, BEING_GIVEN, GIVEN)) {
      Atomics.notify(this.#numbers, this.#at(place));
      return taken;
    }
    Atomics.sub(this.#numbers, ACTIVE, 1);
    closeSync(own);
    return 0;
  }

  /** Writes the first entries down, as many as there is room for; gives how many. */
  #write(place: number, fd: number, entries: readonly Entry[]): number {
    const names = this.#names.subarray(place * ROOM, (place + 1) * ROOM);
    let length = 0;
    let taken = 0;
    for (const entry of entries) {
      const { name } = entry;
      const size = Buffer.byteLength(name);
      if (length + size + 2 > ROOM) break;
      names[length] = entry.isDirectory() ? IS_FOLDER : IS_OTHER;
      if (typeof name === 'string') names.write(name, length + 1);
      else name.copy(names, length + 1);
      length += size + 2;
      names[length - 1] = 0;
      taken++;
    }
    this.#numbers[this.#at(place) + 1] = fd;
    this.#numbers[this.#at(place) + 2] = length;
    return taken;
  }

  /** From now on this walker has a place and waits for work. */
  enlist(place: number): void {
    this.#wait(place, ABSENT);
  }

  /** Blocks this thread until something is given (true) or the walker is dismissed. */
  block(place: number): boolean {
    for (;;) {
      const state = Atomics.load(this.#numbers, this.#at(place));
      if (state === GIVEN) return true;
      if (state === DISMISSED) return false;
      Atomics.wait(this.#numbers, this.#at(place), state);
    }
  }

  /** What was given to this walker; undefined when there is nothing. */
  take(place: number): Part | undefined {
    if (!this.#turn(place, GIVEN, WORKING)) return undefined;
    const at = this.#at(place);
    const names = this.#names.subarray(place * ROOM, place * ROOM + (this.#numbers[at + 2] as number));
    return { fd: this.#numbers[at + 1] as number, entries: readEntries(names) };
  }

  /** What was taken is done. */
  done(place: number): void {
    if (this.#wait(place, WORKING)) Atomics.sub(this.#numbers, ACTIVE, 1);
  }

  /** Takes a walker's place away, whatever it is at. */
  dismiss(place: number): void {
    const state = Atomics.exchange(this.#numbers, this.#at(place), DISMISSED);
    if (state === IDLE) Atomics.sub(this.#numbers, WAITING, 1);
    if (state === GIVEN || state === WORKING) Atomics.sub(this.#numbers, ACTIVE, 1);
    if (state === GIVEN) closeSync(this.#numbers[this.#at(place) + 1] as number);
    Atomics.notify(this.#numbers, this.#at(place));
  }

  #wait(place: number, from: number): boolean {
    const turned = this.#turn(place, from, IDLE);
    if (turned) Atomics.add(this.#numbers, WAITING, 1);
    return turned;
  }

  #turn(place: number, from: number, to: number): boolean {
    return Atomics.compareExchange(this.#numbers, this.#at(place), from, to) === from;
  }

  #at(place: number): number {
    return PLACES + place * PLACE;
  }
}

function readEntries(names: Buffer): Entry[] {
  const entries: Entry[] = [];
  for (let from = 0; from < names.length; ) {
    const to = names.indexOf(0, from);
    const text = names.toString('utf8', from + 1, to);
    // A copy of what is no valid UTF-8: the memory is used again.
    const name = text.includes('\uFFFD') ? Buffer.from(names.subarray(from + 1, to)) : text;
    entries.push(entryOf(name, names[from] === IS_FOLDER));
    from = to + 1;
  }
  return entries;
}
