/** The folders of a walk (walk.ts): opened without following anything, read a part at a time, closed when they are many. */
import type { Dir } from 'node:fs';
import { errnoOf } from './errors.ts';
import {
  chmodSync,
  closeSync,
  constants,
  fstatSync,
  opendirSync,
  openSync,
  readdirSync,
  readFileSync,
  statfsSync,
} from './fs.ts';
import { O_PATH } from './o-path.ts';

/** Text, or bytes where those are no valid UTF-8. */
export type Name = string | Buffer;

export interface Entry {
  readonly name: Name;
  isDirectory(): boolean;
}

/** Folders of more bytes than this are read NAMES at a time: bounds the memory for a folder of any size. */
export const LARGE = 64 * 1024;
const NAMES = 1024;
/** So many where their order counts. */
const NAMES_TO_SORT = 32 * NAMES;
const TMPFS = 0x01021994;
export const FOLDER = constants.O_DIRECTORY | constants.O_NOFOLLOW;
export const BY_DESCRIPTOR = process.platform === 'linux';

/** What stands before an open folder's number in a path. */
export const DESCRIPTORS = '/proc/self/fd/';

/**
 * Makes the folder of our descriptors the working directory, and gives what then stands before a number: nothing. The
 * kernel looks up three names less for each entry: 3 % of a removal on ext4, 8 % on tmpfs (measured). Only for a command,
 * whose working directory nobody else changes: no relative path means the same any more.
 */
export function goToDescriptors(): string {
  if (!BY_DESCRIPTOR) return DESCRIPTORS;
  try {
    process.chdir(DESCRIPTORS);
    return process.cwd() === `/proc/${process.pid}/fd` ? '' : DESCRIPTORS;
  } catch {
    // Without /proc there is no walk either: it will say so.
    return DESCRIPTORS;
  }
}

export interface Folder {
  readonly name: Name;
  readonly dev: bigint;
  readonly ino: bigint;
  readonly uid: number;
  readonly isLarge: boolean;
  /** undefined while closed to keep OPEN_FOLDERS. */
  fd: number | undefined;
  /** What was listed and is not done; the last comes first. */
  entries: Entry[];
  /** The listing under way. Removing what it gave does not disturb it, and names made behind it do not prolong it. */
  listing: Dir | undefined;
  listed: boolean;
  /** Whether names are read as bytes: only where a name is no valid UTF-8, as that is slower. */
  asBytes: boolean;
  hasOdd: boolean;
  /** Names (latin1) that could not go: not tried again. */
  stuck: Set<string> | undefined;
  /** Another walker has, or had, a part of it: whether it is empty is not for this walk to say. */
  shared: boolean;
  walks: number;
}

export function readAll(folder: Folder, path: Name): Entry[] {
  folder.listed = true;
  const encoding = (folder.asBytes ? 'buffer' : 'utf8') as BufferEncoding;
  return readdirSync(path as string, { withFileTypes: true, encoding }) as Entry[];
}

/** `mayHoldMany`: whether so many names at a time may be read that it is worth to sort them. */
export function readSome(folder: Folder, path: Name, mayHoldMany: boolean): Entry[] {
  const encoding = (folder.asBytes ? 'buffer' : 'utf8') as BufferEncoding;
  folder.listing ??= opendirSync(path as string, { encoding, bufferSize: NAMES });
  const isSorted = mayHoldMany && !folder.asBytes && isOrdered(path);
  const names: Name[] = [];
  const folders = new Set<Name>();
  while (names.length < (isSorted ? NAMES_TO_SORT : NAMES)) {
    const entry = folder.listing.readSync();
    if (!entry) {
      endListing(folder);
      break;
    }
    names.push(entry.name);
    if (entry.isDirectory()) folders.add(entry.name);
  }
  if (isSorted) names.sort();
  return names.map((name) => entryOf(name, folders.has(name)));
}

const yes = () => true;
const no = () => false;

export function entryOf(name: Name, isFolder: boolean): Entry {
  return { name, isDirectory: isFolder ? yes : no };
}

/**
 * Whether a large folder goes faster by name than in its own order: names are most often given in the order in which files,
 * and so their inodes, are made, and an inode shares its block of the disk with its neighbours (docs/bench.md). Not on
 * tmpfs, which has no such blocks. A small folder is read sorted anyway.
 */
function isOrdered(path: Name): boolean {
  try {
    return statfsSync(path).type !== TMPFS;
  } catch {
    return false;
  }
}

export function endListing(folder: Folder): void {
  folder.listed = true;
  folder.listing?.closeSync();
  folder.listing = undefined;
}

export function isOdd({ name }: Entry): boolean {
  return (name as string).includes('\uFFFD');
}

export function stick(folder: Folder, name: Name): void {
  folder.stuck ??= new Set();
  folder.stuck.add(keyOf(name));
}

export function keyOf(name: Name): string {
  return Buffer.from(name as string).toString('latin1');
}

export function closeFolder(folder: Folder): void {
  folder.listing?.closeSync();
  folder.listing = undefined;
  folder.entries = [];
  folder.listed = false;
  if (folder.fd !== undefined) closeSync(folder.fd);
  folder.fd = undefined;
}

/**
 * Opens a folder without following anything. `prove` throws unless it is one that may be touched. One of ours without
 * permissions is opened up, through a handle and only after that proof.
 */
export function openFolder(path: Name, uid: number, prove: (fd: number) => void): number {
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

/** The mount a descriptor is on: a bind mount of the same file system has the same device, but another id. */
export function mountOf(fd: number): string {
  const id = BY_DESCRIPTOR && /^mnt_id:\s*(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'latin1'))?.[1];
  return id || `device ${fstatSync(fd).dev}`;
}
