/**
 * removeTree: takes away any tree a task can have made, and touches nothing outside it (design section 8).
 *
 * It walks by descriptor: every name is used below an open folder (/proc/self/fd/N/name), folders are opened with
 * O_NOFOLLOW, and a folder that had to be closed is reached again through "..", checked by inode. So a folder that is
 * exchanged for a link between two calls is never followed. Links and files are unlinked, never opened, never chmod-ed.
 * A folder is tried with rmdir first: a mount point says EBUSY before anything in it was looked at. Names are bytes.
 * Where there is no /proc/self/fd (macOS) the same walk goes by path: see docs/limits.md.
 */
import type { Dir, Dirent } from 'node:fs';
import { errnoOf, TaskError } from './errors.ts';
import {
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  lstatSync,
  opendirSync,
  openSync,
  readFileSync,
  rmdirSync,
  unlinkSync,
} from './fs.ts';
import { type Identity, isIdentity } from './identity.ts';
import { O_PATH } from './o-path.ts';
import { quoteForPeople } from './text.ts';
import { nextTurn } from './turn.ts';

export interface KeptEntry {
  readonly path: string;
  readonly reason: string;
}

export interface Removal {
  /** Removed entries, the root included. */
  readonly entries: number;
  /** Bytes on disk that their removal freed (hard links elsewhere keep theirs). */
  readonly bytes: number;
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
}

/** Open folders at most, each with its listing; deeper trees are walked by closing the upper ones. */
const OPEN_FOLDERS = 32;
/** Names read from a folder at one time: bounds the memory for a folder of any size. */
const NAMES = 512;
/** Entries between two turns of the event loop, in which signals are heard. */
const TURN = 256;
/** How often a folder is walked from its first name to its last while it is not empty: something is still writing. */
const WALKS = 4;
/** How many kept entries are listed by name. */
const LISTED = 20;

const FOLDER = constants.O_DIRECTORY | constants.O_NOFOLLOW;
const BY_DESCRIPTOR = process.platform === 'linux';

interface Folder {
  readonly name: Buffer;
  readonly dev: bigint;
  readonly ino: bigint;
  readonly uid: number;
  /** undefined while closed to keep OPEN_FOLDERS. */
  fd: number | undefined;
  /** The listing under way. Removing what it gave does not disturb it, and names made behind it do not prolong it. */
  listing: Dir | undefined;
  /** Names (latin1) that could not go: not tried again. */
  readonly stuck: Set<string>;
  walks: number;
}

/** Removes the tree at `root`, which must be the directory of that identity. @throws TaskError NOT_OURS when it is not. */
export async function removeTree(root: string, identity: Identity, options: RemoveOptions): Promise<Removal> {
  const walk = new Walk(root, options);
  try {
    return await walk.run(identity);
  } finally {
    walk.close();
  }
}

class Walk {
  readonly #root: string;
  readonly #options: RemoveOptions;
  readonly #stack: Folder[] = [];
  readonly #kept: KeptEntry[] = [];
  #keptCount = 0;
  #entries = 0;
  #bytes = 0;
  #mount = '';

  constructor(root: string, options: RemoveOptions) {
    this.#root = root;
    this.#options = options;
  }

  async run(identity: Identity): Promise<Removal> {
    const prove = (fd: number) => {
      if (!isIdentity(fstatSync(fd, { bigint: true }), identity))
        throw new TaskError('NOT_OURS', `it was exchanged for another directory: that one is untouched`);
      this.#mount = mountOf(fd);
    };
    this.#push(Buffer.from(this.#root), openFolder(this.#root, this.#options.uid, prove));
    let stopped = false;
    for (let steps = 1; this.#stack.length > 0; steps++) {
      if (steps % TURN === 0) await nextTurn();
      stopped = this.#options.stop();
      if (stopped) break;
      this.#step(this.#stack.at(-1) as Folder);
    }
    return { entries: this.#entries, bytes: this.#bytes, kept: this.#kept, keptCount: this.#keptCount, stopped };
  }

  close(): void {
    for (const folder of this.#stack) closeFolder(folder);
  }

  /** One entry of the deepest folder, or that folder itself when nothing is left to try in it. */
  #step(folder: Folder): void {
    const listed: { entry?: Dirent | undefined } = {};
    const errno = attempt(() => {
      listed.entry = this.#readEntry(folder);
    });
    const name = listed.entry?.name as unknown as Buffer;
    if (!listed.entry) this.#leave(folder, errno);
    else if (listed.entry.isDirectory()) this.#removeFolder(folder, name);
    else this.#removeFile(folder, name);
  }

  /** The next entry of a folder, but for those that are stuck; undefined at the end of the listing. */
  #readEntry(folder: Folder): Dirent | undefined {
    const path = BY_DESCRIPTOR ? `/proc/self/fd/${folder.fd}` : this.#pathOf(folder);
    folder.listing ??= opendirSync(path as string, { encoding: 'buffer' as BufferEncoding, bufferSize: NAMES });
    for (let entry = folder.listing.readSync(); entry; entry = folder.listing.readSync()) {
      if (!folder.stuck.has(keyOf(entry.name as unknown as Buffer))) return entry;
    }
    folder.listing.closeSync();
    folder.listing = undefined;
    return undefined;
  }

  #removeFile(folder: Folder, name: Buffer): void {
    const path = this.#at(folder, name);
    let bytes = 0;
    const errno = this.#attempt(folder, () => {
      const { nlink, blocks } = lstatSync(path);
      unlinkSync(path);
      bytes = nlink === 1 ? blocks * 512 : 0;
    });
    if (errno === undefined) this.#count(bytes);
    else if (errno === 'EISDIR') this.#removeFolder(folder, name);
    else this.#keep(folder, name, errno);
  }

  /** rmdir first; a folder that is not empty is entered, and so is one that must stay: what is in it may go. */
  #removeFolder(folder: Folder, name: Buffer): void {
    const path = this.#at(folder, name);
    const errno = this.#attempt(folder, () => rmdirSync(path));
    if (errno === undefined) this.#count(0);
    else if (errno === 'ENOTDIR') this.#removeFile(folder, name);
    else if (isNotEmpty(errno) || errno === 'EACCES' || errno === 'EPERM') this.#enter(folder, name, path);
    else this.#keep(folder, name, errno);
  }

  #enter(folder: Folder, name: Buffer, path: Buffer): void {
    const prove = (fd: number) => {
      if (mountOf(fd) !== this.#mount) throw Object.assign(new Error('a mount point'), { code: 'EBUSY' });
    };
    const errno = attempt(() => this.#push(name, openFolder(path, this.#options.uid, prove)));
    // No folder any more: the next walk of its parent finds what it is now.
    if (errno !== undefined && errno !== 'ENOTDIR') this.#keep(folder, name, errno);
  }

  #push(name: Buffer, fd: number): void {
    const { dev, ino, uid } = fstatSync(fd, { bigint: true });
    this.#stack.push({ name, dev, ino, uid: Number(uid), fd, listing: undefined, stuck: new Set(), walks: 0 });
    const oldest = this.#stack.at(-1 - OPEN_FOLDERS);
    if (oldest) closeFolder(oldest);
  }

  /** Done with a folder, or with the errno of what went wrong in reading it: rmdir, and back to its parent. */
  #leave(folder: Folder, failure?: string): void {
    const parent = this.#stack.at(-2);
    if (parent) this.#reopen(parent, folder);
    const path = parent ? this.#at(parent, folder.name) : this.#root;
    const remove = () => rmdirSync(path);
    const isStuck = folder.stuck.size > 0;
    const errno = failure ?? (isStuck ? 'ENOTEMPTY' : parent ? this.#attempt(parent, remove) : attempt(remove));
    // Something wrote into it behind the listing: it stays the deepest folder and is listed again.
    if (errno !== undefined && isNotEmpty(errno) && !isStuck && ++folder.walks < WALKS) return;
    this.#stack.pop();
    closeFolder(folder);
    if (errno === undefined) this.#count(0);
    // What is in it was reported; the folder only follows from that.
    else if (isStuck && failure === undefined) parent?.stuck.add(keyOf(folder.name));
    else if (errno !== 'ENOTDIR' || !parent) this.#keep(parent, folder.name, errno);
  }

  /** A parent that was closed is the ".." of its child, or the tree was moved under our hands. */
  #reopen(parent: Folder, child: Folder): void {
    if (parent.fd !== undefined) return;
    const path = BY_DESCRIPTOR ? `/proc/self/fd/${child.fd}/..` : this.#pathOf(parent);
    const fd = openSync(path, constants.O_RDONLY | FOLDER);
    const { dev, ino } = fstatSync(fd, { bigint: true });
    if (ino !== parent.ino || dev !== parent.dev) {
      closeSync(fd);
      throw new TaskError('SURVIVED', 'a folder in it was moved while it was removed');
    }
    parent.fd = fd;
  }

  /** Tries a call; where the folder it happens in lacks our permissions, opens that up and tries once more. */
  #attempt(folder: Folder, call: () => void): string | undefined {
    const errno = attempt(call);
    const { fd } = folder;
    if (errno !== 'EACCES' || folder.uid !== this.#options.uid || fd === undefined || !BY_DESCRIPTOR) return errno;
    return attempt(() => {
      fchmodSync(fd, 0o700);
      call();
    });
  }

  #count(bytes: number): void {
    this.#entries++;
    this.#bytes += bytes;
  }

  #keep(folder: Folder | undefined, name: Buffer, errno: string): void {
    folder?.stuck.add(keyOf(name));
    this.#keptCount++;
    if (this.#kept.length >= LISTED) return;
    const path = folder ? `${this.#pathOf(folder)}/${name}` : this.#root;
    // A mount point is not looked at: a dead one hangs.
    const owner = folder && errno !== 'EBUSY' ? this.#strangerOf(folder, name) : undefined;
    this.#kept.push({ path, reason: explain(errno, owner, this.#root) });
  }

  /** The uid, when it is not ours, of a folder or of the entry in it. */
  #strangerOf(folder: Folder, name: Buffer): number | undefined {
    if (folder.uid !== this.#options.uid) return folder.uid;
    let uid = folder.uid;
    attempt(() => {
      uid = lstatSync(this.#at(folder, name)).uid;
    });
    return uid === folder.uid ? undefined : uid;
  }

  /** A name in an open folder. */
  #at(folder: Folder, name: Buffer): Buffer {
    const path = BY_DESCRIPTOR ? Buffer.from(`/proc/self/fd/${folder.fd}`) : this.#pathOf(folder);
    return Buffer.concat([path, Buffer.from('/'), name]);
  }

  /** The path of a folder of the stack: for messages, and for the walk where it goes by path. */
  #pathOf(folder: Folder): Buffer {
    const names = this.#stack.slice(0, this.#stack.lastIndexOf(folder) + 1).map(({ name }) => name);
    return Buffer.concat(names.flatMap((name, index) => (index === 0 ? [name] : [Buffer.from('/'), name])));
  }
}

function keyOf(name: Buffer): string {
  return name.toString('latin1');
}

function closeFolder(folder: Folder): void {
  folder.listing?.closeSync();
  folder.listing = undefined;
  if (folder.fd !== undefined) closeSync(folder.fd);
  folder.fd = undefined;
}

/**
 * Opens a folder without following anything. `prove` throws unless it is one that may be touched. One of ours without
 * permissions is opened up, through a handle and only after that proof.
 */
function openFolder(path: Buffer | string, uid: number, prove: (fd: number) => void): number {
  let fd: number;
  try {
    fd = openSync(path, constants.O_RDONLY | FOLDER);
  } catch (error) {
    if (errnoOf(error) !== 'EACCES' || !BY_DESCRIPTOR) throw error;
    const handle = openSync(path, O_PATH | FOLDER);
    try {
      prove(handle);
      if (fstatSync(handle).uid !== uid) throw error;
      chmodSync(`/proc/self/fd/${handle}`, 0o700);
      return openSync(`/proc/self/fd/${handle}`, constants.O_RDONLY | constants.O_DIRECTORY);
    } finally {
      closeSync(handle);
    }
  }
  try {
    prove(fd);
    return fd;
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** The errno of a call that fails; undefined when it worked or there was nothing to do: ENOENT is done. */
function attempt(call: () => void): string | undefined {
  try {
    call();
    return undefined;
  } catch (error) {
    const errno = knownErrno(error);
    return errno === 'ENOENT' ? undefined : errno;
  }
}

/** The errno of what the operating system threw; anything else is thrown on. */
function knownErrno(error: unknown): string {
  const errno = errnoOf(error);
  if (errno === undefined || error instanceof TaskError) throw error;
  return errno;
}

function isNotEmpty(errno: string): boolean {
  return errno === 'ENOTEMPTY' || errno === 'EEXIST';
}

/** The mount a descriptor is on: a bind mount of the same file system has the same device, but another id. */
function mountOf(fd: number): string {
  const id = BY_DESCRIPTOR && /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
  return id || `device ${fstatSync(fd).dev}`;
}

/** Why an entry could not go, and what would help. */
function explain(errno: string, owner: number | undefined, root: string): string {
  const denied = errno === 'EACCES' || errno === 'EPERM';
  if (denied && owner !== undefined)
    return `it or its folder belongs to uid ${owner} (${errno}): as that user or root, rm -rf -- ${quoteForPeople(root)}`;
  switch (errno) {
    case 'EBUSY':
      return 'a mount point, or in use (EBUSY): umount it';
    case 'EPERM':
      return `immutable, append-only or a swap file in use (EPERM): as root, chattr -R -f -ia ${quoteForPeople(root)}`;
    case 'EACCES':
      return 'permission denied (EACCES)';
    case 'EROFS':
      return 'on a read-only file system (EROFS): mount that writable';
    case 'ENOTEMPTY':
    case 'EEXIST':
      return `something keeps writing into it (${errno}): end that`;
    default:
      return errno;
  }
}
