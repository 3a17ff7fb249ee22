/**
 * removeTree: takes away any tree a task can have made, and touches nothing outside it (design section 8).
 *
 * It walks by descriptor: every name is used below an open folder (/proc/self/fd/N/name), folders are opened with
 * O_NOFOLLOW, and a folder that had to be closed is reached again through "..", checked by inode. So a folder that is
 * exchanged for a link between two calls is never followed. Links and files are unlinked, never opened, never chmod-ed.
 * A folder is tried with rmdir first: a mount point says EBUSY before anything in it was looked at. Names are bytes.
 * Where there is no /proc/self/fd (macOS) the same walk goes by path: see docs/limits.md.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { errnoOf, TaskError, unlessMissing } from './errors.ts';
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

/** Open folders at most; deeper trees are walked by closing the upper ones. */
const OPEN_FOLDERS = 64;
/** Names read from a folder at one time: bounds the memory for a folder of any size. */
const NAMES = 4096;
/** Entries between two turns of the event loop, in which signals are heard. */
const TURN = 256;
/** How often a folder that is not empty after its walk is walked again: something was still writing. */
const WALKS = 3;
/** How many kept entries are listed by name. */
const LISTED = 20;

/** Linux: a handle on a place, for a folder we may not read. Not among Node's constants. */
const O_PATH = 0o10000000;
const BY_DESCRIPTOR = process.platform === 'linux';

interface Folder {
  readonly name: Buffer;
  readonly dev: bigint;
  readonly ino: bigint;
  readonly uid: number;
  /** undefined while closed to keep OPEN_FOLDERS. */
  fd: number | undefined;
  names: Name[];
  /** Names (latin1) that could not go: not tried again. */
  readonly stuck: Set<string>;
  walks: number;
}

interface Name {
  readonly bytes: Buffer;
  readonly folder: boolean;
}

/** Removes the tree at `root`, whose inode must be `ino`. @throws TaskError NOT_OURS when another one stands there. */
export async function removeTree(root: string, ino: string, options: RemoveOptions): Promise<Removal> {
  const walk = new Walk(root, options);
  try {
    return await walk.run(ino);
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

  async run(ino: string): Promise<Removal> {
    const fd = this.#open(this.#root);
    const top = this.#push(Buffer.from(this.#root), fd);
    if (String(top.ino) !== ino)
      throw new TaskError('NOT_OURS', `${this.#root} was exchanged for another directory: it is untouched`);
    this.#mount = mountOf(fd);
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
    for (const { fd } of this.#stack) if (fd !== undefined) closeSync(fd);
  }

  /** One entry of the deepest folder, or that folder itself when nothing is left to try in it. */
  #step(folder: Folder): void {
    const name = folder.names.pop() ?? this.#readNames(folder);
    if (name === undefined) this.#leave(folder);
    else if (name.folder) this.#removeFolder(folder, name.bytes);
    else this.#removeFile(folder, name.bytes);
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

  #removeFolder(folder: Folder, name: Buffer): void {
    const path = this.#at(folder, name);
    const errno = this.#attempt(folder, () => rmdirSync(path));
    if (errno === undefined) this.#count(0);
    else if (errno === 'ENOTDIR') this.#removeFile(folder, name);
    else if (errno === 'ENOTEMPTY' || errno === 'EEXIST') this.#enter(folder, name, path);
    else this.#keep(folder, name, errno);
  }

  #enter(folder: Folder, name: Buffer, path: Buffer): void {
    let fd: number | undefined;
    try {
      fd = unlessMissing(() => this.#open(path));
    } catch (error) {
      this.#keep(folder, name, errnoOf(error) ?? 'EIO');
    }
    // Gone, or no folder any more: the next look at the parent says which.
    if (fd === undefined) return;
    if (mountOf(fd) !== this.#mount) {
      closeSync(fd);
      this.#keep(folder, name, 'EBUSY');
    } else {
      this.#push(name, fd);
    }
  }

  /** Opens a folder without following anything; one of ours without permissions is opened up, through a descriptor. */
  #open(path: Buffer | string): number {
    const flags = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW;
    try {
      return openSync(path, flags);
    } catch (error) {
      if (errnoOf(error) !== 'EACCES' || !BY_DESCRIPTOR) throw error;
      const handle = openSync(path, O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW);
      try {
        if (fstatSync(handle).uid !== this.#options.uid) throw error;
        chmodSync(`/proc/self/fd/${handle}`, 0o700);
        return openSync(`/proc/self/fd/${handle}`, constants.O_RDONLY | constants.O_DIRECTORY);
      } finally {
        closeSync(handle);
      }
    }
  }

  #push(name: Buffer, fd: number): Folder {
    const { dev, ino, uid } = fstatSync(fd, { bigint: true });
    const folder: Folder = { name, dev, ino, uid: Number(uid), fd, names: [], stuck: new Set(), walks: 0 };
    this.#stack.push(folder);
    const oldest = this.#stack.at(-1 - OPEN_FOLDERS);
    if (oldest?.fd !== undefined) {
      closeSync(oldest.fd);
      oldest.fd = undefined;
    }
    return folder;
  }

  /** The next names of a folder, but for those that are stuck; undefined when there are none. */
  #readNames(folder: Folder): Name | undefined {
    const path = BY_DESCRIPTOR ? `/proc/self/fd/${folder.fd}` : this.#pathOf();
    const dir = opendirSync(path as string, { encoding: 'buffer' as BufferEncoding, bufferSize: 512 });
    try {
      for (let entry = dir.readSync(); entry && folder.names.length < NAMES; entry = dir.readSync()) {
        const bytes = entry.name as unknown as Buffer;
        if (!folder.stuck.has(bytes.toString('latin1'))) folder.names.push({ bytes, folder: entry.isDirectory() });
      }
    } finally {
      dir.closeSync();
    }
    return folder.names.pop();
  }

  /** Done with a folder: back to its parent, and rmdir. */
  #leave(folder: Folder): void {
    const parent = this.#stack.at(-2);
    if (parent) this.#reopen(parent, folder);
    this.#stack.pop();
    closeSync(folder.fd as number);
    const path = parent ? this.#at(parent, folder.name) : this.#root;
    if (folder.stuck.size > 0) {
      parent?.stuck.add(folder.name.toString('latin1'));
      return;
    }
    const errno = parent ? this.#attempt(parent, () => rmdirSync(path)) : attempt(() => rmdirSync(path));
    if (errno === undefined) this.#count(0);
    else if ((errno === 'ENOTEMPTY' || errno === 'EEXIST') && ++folder.walks < WALKS) this.#again(folder, path);
    else this.#keep(parent, folder.name, errno);
  }

  /** Something wrote into the folder after its last listing: walks it once more. */
  #again(folder: Folder, path: Buffer | string): void {
    const fd = unlessMissing(() => this.#open(path));
    if (fd === undefined) return;
    const again = this.#push(folder.name, fd);
    again.walks = folder.walks;
    if (again.ino !== folder.ino || mountOf(fd) !== this.#mount) {
      this.#stack.pop();
      closeSync(fd);
      this.#keep(this.#stack.at(-1), folder.name, 'EBUSY');
    }
  }

  /** A parent that was closed is the ".." of its child, or the tree was moved under our hands. */
  #reopen(parent: Folder, child: Folder): void {
    if (parent.fd !== undefined) return;
    const path = BY_DESCRIPTOR ? `/proc/self/fd/${child.fd}/..` : this.#pathOf(this.#stack.length - 1);
    const fd = openSync(path, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
    const { dev, ino } = fstatSync(fd, { bigint: true });
    if (ino !== parent.ino || dev !== parent.dev) {
      closeSync(fd);
      throw new TaskError(
        'SURVIVED',
        `a folder of ${this.#root} was moved while it was removed: run task-teardown again`,
      );
    }
    parent.fd = fd;
  }

  /** Tries a call; where the folder it happens in lacks our permissions, opens that up and tries once more. ENOENT is done. */
  #attempt(folder: Folder, call: () => void): string | undefined {
    const errno = attempt(call);
    if (errno !== 'EACCES' || folder.uid !== this.#options.uid || folder.fd === undefined || !BY_DESCRIPTOR)
      return errno;
    fchmodSync(folder.fd, 0o700);
    return attempt(call);
  }

  #count(bytes: number): void {
    this.#entries++;
    this.#bytes += bytes;
  }

  #keep(folder: Folder | undefined, name: Buffer, errno: string): void {
    folder?.stuck.add(name.toString('latin1'));
    this.#keptCount++;
    if (this.#kept.length >= LISTED) return;
    const path = folder ? `${this.#pathOf().toString()}/${name}` : this.#root;
    this.#kept.push({ path, reason: explain(errno, folder, this.#options.uid) });
  }

  /** A name in the deepest folder. */
  #at(folder: Folder, name: Buffer): Buffer {
    const path = BY_DESCRIPTOR ? Buffer.from(`/proc/self/fd/${folder.fd}`) : this.#pathOf();
    return Buffer.concat([path, Buffer.from('/'), name]);
  }

  /** The path of the deepest folder (of the first `depth` ones): for messages, and for the walk where it goes by path. */
  #pathOf(depth = this.#stack.length): Buffer {
    const names = this.#stack.slice(0, depth).map(({ name }) => name);
    return Buffer.concat(names.flatMap((name, index) => (index === 0 ? [name] : [Buffer.from('/'), name])));
  }
}

/** The errno of a call that fails; undefined when it worked or there was nothing to do. */
function attempt(call: () => void): string | undefined {
  try {
    unlessGone(call);
    return undefined;
  } catch (error) {
    const errno = errnoOf(error);
    if (errno === undefined) throw error;
    return errno;
  }
}

function unlessGone(call: () => void): void {
  try {
    call();
  } catch (error) {
    if (errnoOf(error) !== 'ENOENT') throw error;
  }
}

/** The id of the mount a descriptor is on: a bind mount of the same file system has the same device. */
function mountOf(fd: number): string {
  if (!BY_DESCRIPTOR) return String(fstatSync(fd).dev);
  return /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1] ?? '';
}

function explain(errno: string, folder: Folder | undefined, uid: number): string {
  const owner = folder && folder.uid !== uid ? `; its folder belongs to uid ${folder.uid}` : '';
  switch (errno) {
    case 'EBUSY':
      return 'a mount point, or in use (EBUSY): unmount it';
    case 'EPERM':
      return `not permitted (EPERM)${owner || ': another owner in a sticky folder, or immutable or append-only (see lsattr)'}`;
    case 'EACCES':
      return `permission denied (EACCES)${owner}`;
    case 'EROFS':
      return 'on a read-only file system (EROFS)';
    case 'ENOTEMPTY':
      return 'something keeps writing into it (ENOTEMPTY)';
    default:
      return errno;
  }
}
