/**
 * One walker of a removal (remove.ts): takes away what is below a folder, and touches nothing outside it.
 *
 * It walks by descriptor: every name is used below an open folder (/proc/self/fd/N/name, or N/name where the working
 * directory is /proc/self/fd), folders are opened with O_NOFOLLOW, and a folder that had to be closed is reached again
 * through "..", checked by inode. So a folder that is exchanged for a link between two calls is never followed. Links and
 * files are unlinked, never opened, never chmod-ed. A folder is tried with rmdir first: a mount point says EBUSY before
 * anything in it was looked at. Names are bytes.
 * Where there is no /proc/self/fd (macOS) the same walk goes by path: see docs/limits.md.
 */
import { errnoOf, TaskError } from './errors.ts';
import { closeSync, constants, fchmodSync, fstatSync, lstatSync, openSync, rmdirSync, unlinkSync } from './fs.ts';
import { explainKept, type KeptEntry } from './kept.ts';
import {
  BY_DESCRIPTOR,
  closeFolder,
  type Entry,
  endListing,
  FOLDER,
  type Folder,
  isOdd,
  keyOf,
  LARGE,
  mountOf,
  type Name,
  openFolder,
  readAll,
  readSome,
  stick,
} from './walk-folder.ts';

/** How a walker parts its work with others that have none. */
export interface Sharing {
  /** Whether somebody waits for work; asked before each entry. */
  readonly wanted: () => boolean;
  /** Hands over entries of an open folder; gives how many were taken, from the first on. */
  readonly give: (fd: number, entries: readonly Entry[]) => number;
}

export interface WalkOptions {
  /** The removed tree's path, for messages and where the walk goes by path. */
  readonly root: string;
  readonly uid: number;
  /** What stands before a descriptor in a path: DESCRIPTORS, or nothing (goToDescriptors). */
  readonly prefix: string;
  readonly sharing?: Sharing | undefined;
  /** What the removal of a file frees, in bytes; not asked for at all where that is found out otherwise. */
  readonly weigh?: ((path: Name) => number) | undefined;
}

/** Open folders at most, each with its listing; deeper trees are walked by closing the upper ones. */
const OPEN_FOLDERS = 32;
/** How often a folder is walked from its first name to its last while it is not empty: something is still writing. */
const WALKS = 4;
/** How many kept entries are listed by name. */
const LISTED = 20;
/** Fewer files than this are not worth handing over. */
const WORTH = 64;

/** Somebody else removed it: done, but not by us. */
const GONE = 'ENOENT';

export class Walk {
  readonly kept: KeptEntry[] = [];
  keptCount = 0;
  #entries = 0;
  #bytes = 0;
  /** Whether the root stayed because another walker had a part of the tree: it is to be walked again. */
  deferred = false;
  readonly #options: WalkOptions;
  readonly #stack: Folder[] = [];

  constructor(options: WalkOptions) {
    this.#options = options;
  }

  get isDone(): boolean {
    return this.#stack.length === 0;
  }

  /** Begins with the whole tree: its root goes too. `prove` throws unless what was opened is the right directory. */
  enterRoot(prove: (fd: number) => void): void {
    const { root, uid } = this.#options;
    this.#push(root, openFolder(root, uid, prove));
  }

  /** Begins with some entries of a folder; the folder itself stays. The descriptor is this walk's from here on. */
  enterPart(fd: number, entries: Entry[]): void {
    this.#push('', fd);
    Object.assign(this.#stack.at(-1) as Folder, { entries, listed: true, shared: true });
  }

  /** What was removed since this was asked last: entries, and the bytes on disk that this freed. */
  takeCount(): { entries: number; bytes: number } {
    const count = { entries: this.#entries, bytes: this.#bytes };
    this.#entries = 0;
    this.#bytes = 0;
    return count;
  }

  close(): void {
    for (const folder of this.#stack) closeFolder(folder);
    this.#stack.length = 0;
  }

  /** One entry of the deepest folder, or that folder itself when nothing is left to try in it. */
  step(): void {
    if (this.#options.sharing?.wanted()) this.#share(this.#options.sharing);
    const folder = this.#stack.at(-1) as Folder;
    let entry: Entry | undefined;
    try {
      entry = this.#next(folder);
    } catch (error) {
      this.#leave(folder, knownErrno(error));
      return;
    }
    if (!entry) this.#leave(folder);
    else if (entry.isDirectory()) this.#removeFolder(folder, entry.name);
    else this.#removeFile(folder, entry.name);
  }

  /** Half of the uppermost folder that has enough left: the largest part, and the fewest of them. */
  #share({ give }: Sharing): void {
    const { length } = this.#stack;
    // Those between the first and the last are closed.
    for (let at = 0; at < length; at = Math.max(at + 1, length - OPEN_FOLDERS - 1)) {
      const folder = this.#stack[at] as Folder;
      const { fd, entries } = folder;
      if (fd === undefined || entries.length < 2) continue;
      const half = Math.floor(entries.length / 2);
      if (half < WORTH && !entries.some((entry) => entry.isDirectory())) continue;
      const taken = give(fd, entries.slice(0, half));
      if (taken === 0) return;
      entries.splice(0, taken);
      folder.shared = true;
      return;
    }
  }

  /** The next entry of a folder, but for those that are stuck; undefined at the end of the listing. */
  #next(folder: Folder): Entry | undefined {
    for (;;) {
      const entry = folder.entries.pop();
      if (!entry && (folder.listed || !this.#read(folder))) return undefined;
      if (entry && !folder.stuck?.has(keyOf(entry.name))) return entry;
    }
  }

  /** Reads more of a folder's names; false when there are none. */
  #read(folder: Folder): boolean {
    const path = BY_DESCRIPTOR ? `${this.#options.prefix}${folder.fd}` : this.#pathOf(folder);
    let entries: Entry[];
    try {
      entries = folder.isLarge ? readSome(folder, path, this.#isOnlyLarge(folder)) : readAll(folder, path);
    } catch (error) {
      // A name that is no UTF-8, on a file system that does not tell types.
      if (errnoOf(error) !== 'ENOENT' || folder.asBytes) throw error;
      entries = [];
      folder.hasOdd = true;
      endListing(folder);
    }
    if (!folder.asBytes && entries.some(isOdd)) {
      folder.hasOdd = true;
      entries = entries.filter((entry) => !isOdd(entry));
    }
    folder.entries = entries;
    if (folder.listed && folder.hasOdd && !folder.asBytes) {
      folder.asBytes = true;
      folder.listed = false;
      return true;
    }
    return entries.length > 0 || !folder.listed;
  }

  /** Many names may be held of one folder only, or the memory would grow with the depth of a tree. */
  #isOnlyLarge(folder: Folder): boolean {
    return this.#stack.every((each) => each === folder || !each.isLarge);
  }

  #removeFile(folder: Folder, name: Name): void {
    const path = this.#at(folder, name);
    const bytes = this.#options.weigh?.(path) ?? 0;
    const errno = this.#attempt(folder, unlinkSync, path);
    if (errno === undefined) this.#count(bytes);
    else if (errno === GONE) return;
    else if (errno === 'EISDIR') this.#removeFolder(folder, name);
    else this.#keep(folder, name, errno);
  }

  /** rmdir first; a folder that is not empty is entered, and so is one that must stay: what is in it may go. */
  #removeFolder(folder: Folder, name: Name): void {
    const path = this.#at(folder, name);
    const errno = this.#attempt(folder, rmdirSync, path);
    if (errno === undefined) this.#count(0);
    else if (errno === GONE) return;
    else if (errno === 'ENOTDIR') this.#removeFile(folder, name);
    else if (isNotEmpty(errno) || isDenied(errno)) this.#enter(folder, name, path, errno);
    else this.#keep(folder, name, errno);
  }

  /** Opens a folder that rmdir refused. What is opened must not be a mount point that came in between. */
  #enter(folder: Folder, name: Name, path: Name, refusal: string): void {
    const prove = (fd: number) => {
      // Where rmdir is denied it never comes to say EBUSY; another device may also be a subvolume, which is no mount.
      const isDoubtful = isDenied(refusal) || fstatSync(fd, { bigint: true }).dev !== folder.dev;
      if (isDoubtful && mountOf(fd) !== mountOf(folder.fd as number)) throw failure('EBUSY');
      const errno = BY_DESCRIPTOR ? attempt(rmdirSync, path) : refusal;
      if (errno === undefined) this.#count(0);
      if (errno === undefined || errno === 'EBUSY') throw failure(errno ?? GONE);
    };
    const errno = attempt(() => this.#push(name, openFolder(path, this.#options.uid, prove)), undefined);
    // No folder any more: the next walk of its parent finds what it is now.
    if (errno !== undefined && errno !== GONE && errno !== 'ENOTDIR') this.#keep(folder, name, errno);
  }

  #push(name: Name, fd: number): void {
    const { dev, ino, uid, size } = fstatSync(fd, { bigint: true });
    this.#stack.push({
      name,
      dev,
      ino,
      uid: Number(uid),
      isLarge: size > LARGE,
      fd,
      entries: [],
      listing: undefined,
      listed: false,
      asBytes: false,
      hasOdd: false,
      stuck: undefined,
      shared: false,
      walks: 0,
    });
    const oldest = this.#stack.at(-1 - OPEN_FOLDERS);
    // The part of a folder that was handed over is not to be found again: it stays open.
    if (oldest && (oldest !== this.#stack[0] || oldest.name !== '')) closeFolder(oldest);
  }

  /** Done with a folder, or with the errno of what went wrong in reading it: rmdir, and back to its parent. */
  #leave(folder: Folder, failure?: string): void {
    const parent = this.#stack.at(-2);
    if (parent) this.#reopen(parent, folder);
    if (folder.name === '') {
      this.#drop(folder);
      return;
    }
    const isStuck = (folder.stuck?.size ?? 0) > 0;
    let errno = failure;
    if (errno === undefined && isStuck) errno = 'ENOTEMPTY';
    else if (errno === undefined && parent) errno = this.#attempt(parent, rmdirSync, this.#at(parent, folder.name));
    else if (errno === undefined) errno = attempt(rmdirSync, this.#options.root);
    if (errno === undefined || errno === GONE) {
      if (errno === undefined) this.#count(0);
      this.#drop(folder);
      return;
    }
    if (folder.shared && isNotEmpty(errno)) {
      if (parent) parent.shared = true;
      else this.deferred = true;
      this.#drop(folder);
      return;
    }
    // Something wrote into it behind the listing: it stays the deepest folder and is listed again.
    if (isNotEmpty(errno) && !isStuck && ++folder.walks < WALKS) {
      folder.listed = false;
      return;
    }
    this.#drop(folder);
    // What is in it was reported; the folder only follows from that.
    if (isStuck && failure === undefined) {
      if (parent) stick(parent, folder.name);
    } else if (errno !== 'ENOTDIR' || !parent) this.#keep(parent, folder.name, errno);
  }

  #drop(folder: Folder): void {
    this.#stack.pop();
    closeFolder(folder);
  }

  /** A parent that was closed is the ".." of its child, or the tree was moved under our hands. */
  #reopen(parent: Folder, child: Folder): void {
    if (parent.fd !== undefined) return;
    const path = BY_DESCRIPTOR ? `${this.#options.prefix}${child.fd}/..` : this.#pathOf(parent);
    const fd = openSync(path, constants.O_RDONLY | FOLDER);
    const { dev, ino } = fstatSync(fd, { bigint: true });
    if (ino !== parent.ino || dev !== parent.dev) {
      closeSync(fd);
      throw new TaskError('SURVIVED', 'a folder in it was moved while it was removed');
    }
    parent.fd = fd;
  }

  /** Tries a call; where the folder it happens in lacks our permissions, opens that up and tries once more. */
  #attempt(folder: Folder, call: (path: Name) => void, path: Name): string | undefined {
    const errno = attempt(call, path);
    const { fd } = folder;
    if (errno !== 'EACCES' || folder.uid !== this.#options.uid || fd === undefined || !BY_DESCRIPTOR) return errno;
    return attempt((again) => {
      fchmodSync(fd, 0o700);
      call(again);
    }, path);
  }

  #count(bytes: number): void {
    this.#entries++;
    this.#bytes += bytes;
  }

  #keep(folder: Folder | undefined, name: Name, errno: string): void {
    if (folder) stick(folder, name);
    this.keptCount++;
    if (this.kept.length >= LISTED) return;
    const { root } = this.#options;
    const path = folder ? `${this.#pathOf(folder)}/${name}` : root;
    // A mount point is not looked at: a dead one hangs.
    const owner = folder && errno !== 'EBUSY' ? this.#strangerOf(folder, name) : undefined;
    this.kept.push({ path, reason: explainKept({ errno, owner, name: String(name), root }) });
  }

  /** The uid, when it is not ours, of a folder or of the entry in it. */
  #strangerOf(folder: Folder, name: Name): number | undefined {
    if (folder.uid !== this.#options.uid) return folder.uid;
    let uid = folder.uid;
    attempt(
      (path) => {
        uid = lstatSync(path).uid;
      },
      this.#at(folder, name),
    );
    return uid === folder.uid ? undefined : uid;
  }

  /** A name in an open folder. */
  #at(folder: Folder, name: Name): Name {
    const { prefix } = this.#options;
    if (BY_DESCRIPTOR && typeof name === 'string') return `${prefix}${folder.fd}/${name}`;
    const path = BY_DESCRIPTOR ? Buffer.from(`${prefix}${folder.fd}`) : this.#pathOf(folder);
    return Buffer.concat([path, Buffer.from('/'), Buffer.from(name as string)]);
  }

  /** The path of a folder of the stack: for messages, and for the walk where it goes by path. */
  #pathOf(folder: Folder): Buffer {
    const names = this.#stack
      .slice(0, this.#stack.lastIndexOf(folder) + 1)
      .map(({ name }) => Buffer.from(name as string));
    return Buffer.concat(names.flatMap((name, index) => (index === 0 ? [name] : [Buffer.from('/'), name])));
  }
}

/** The errno of a call that fails. */
function attempt<T>(call: (argument: T) => void, argument: T): string | undefined {
  try {
    call(argument);
    return undefined;
  } catch (error) {
    return knownErrno(error);
  }
}

/** The errno of what the operating system threw; anything else is thrown on. */
function knownErrno(error: unknown): string {
  const errno = errnoOf(error);
  if (errno === undefined || error instanceof TaskError) throw error;
  return errno;
}

function failure(code: string): Error {
  return Object.assign(new Error(code), { code });
}

function isNotEmpty(errno: string): boolean {
  return errno === 'ENOTEMPTY' || errno === 'EEXIST';
}

function isDenied(errno: string): boolean {
  return errno === 'EACCES' || errno === 'EPERM';
}
