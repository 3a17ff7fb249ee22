/**
 * The process table of Linux: /proc, without any tool. Every read is bounded, so that an environment of megabytes or
 * thousands of descriptors cost time and memory that are known beforehand; what cannot be read is nobody's.
 */
import { basename } from 'node:path';
import { closeSync, openSync, readdirSync, readSync, statfsSync, statSync } from './fs.ts';
import { isIdentity } from './identity.ts';
import { namesIn, readLink, readText } from './proc-read.ts';
import type { HeldRoot, Location, ProcessTable, Tokens } from './process-table.ts';
import { type ProcessInfo, parseStat } from './processes.ts';

/** More than /proc/PID/stat ever has, in bytes. */
const MOST_STAT = 4096;
/** How much of an environment is read, in bytes: more than the kernel lets a new process have by default. */
const MOST_ENVIRON = 8 * 1024 * 1024;
/** How much of an argument list is read, in bytes. */
const MOST_ARGV = 64 * 1024;
/** Descriptors of one process that are looked at. The hold is on one of 3 to 9, which come first. */
const MOST_FDS = 1024;
/** Threads of a process that are asked for the environment when its first one has ended. */
const MOST_THREADS = 64;
/** The parent of all threads of the kernel, in the first pid namespace; elsewhere that pid is anybody's. */
const KTHREADD = 2;
/** How often the processes are listed in one pass, while new ones appear. */
const MOST_LISTINGS = 8;
/** PROC_PID_INIT_INO: in the first pid namespace /proc/locks shows every lock, elsewhere not those of the dead (measured). */
const FIRST_PID_NS = 'pid:[4026531836]';

/** By their magic numbers: ext2 to ext4, XFS, tmpfs, btrfs, F2FS. */
const PLAIN_FILE_SYSTEMS: ReadonlySet<number> = new Set([0xef53, 0x58465342, 0x01021994, 0x9123683e, 0xf2f52010]);

interface Link {
  readonly pid: number;
  readonly fd: number;
  readonly path: string;
}

/** One read serves most environments; nothing here is asynchronous, so one buffer serves all. */
let buffer = Buffer.allocUnsafe(128 * 1024);

export class ProcTable implements ProcessTable {
  readonly uid: number;
  readonly gaps = [];
  missed = 0;
  /** What was listed before, by name. */
  readonly #seen = new Set<string>();
  readonly #uids = new Map<number, number>();
  readonly #infos = new Map<number, ProcessInfo | undefined>();
  readonly #tokens = new Map<number, Tokens>();
  readonly #carriers = new Map<string, number[]>();
  #unreadable = 0;
  #links: Link[] | undefined;
  #byName: Map<string, Link[]> | undefined;
  #locks: ReadonlySet<string> | 'all' | undefined;

  constructor(uid: number) {
    this.uid = uid;
    // Most of what is listed on an idle machine, and nobody's.
    if (this.get(KTHREADD)?.kernel) {
      for (const pid of readText(`/proc/${KTHREADD}/task/${KTHREADD}/children`).split(' ')) this.#seen.add(pid);
    }
    // A process that forks and ends while the list is gone through is in it by its next pid only: list again.
    for (let listing = 0; listing < MOST_LISTINGS; listing++) if (this.#readFresh() === 0) break;
  }

  /** Reads the processes that were not there before; gives how many there were. */
  #readFresh(): number {
    let fresh = 0;
    for (const name of readdirSync('/proc')) {
      const first = name.charCodeAt(0);
      if (first < 48 || first > 57 || this.#seen.has(name)) continue;
      fresh++;
      this.#seen.add(name);
      this.#read(Number(name));
    }
    return fresh;
  }

  #read(pid: number): void {
    // The folder belongs to the effective uid, also of a process that may not be dumped.
    const owner = ownerOf(pid);
    if (owner === undefined) {
      this.missed++;
      return;
    }
    this.#uids.set(pid, owner);
    if (owner !== this.uid) return;
    // The start time comes first: see process-table.ts.
    const info = this.get(pid);
    if (!info) this.missed++;
    if (!info || info.dead || info.kernel) return;
    const tokens = readTokens(pid);
    if (tokens === 'unreadable') this.#unreadable++;
    if (tokens === 'starting') this.missed++;
    if (typeof tokens !== 'object') return;
    this.#tokens.set(pid, tokens);
    for (const token of new Set([...tokens.own, ...tokens.parent])) {
      const pids = this.#carriers.get(token);
      if (pids) pids.push(pid);
      else this.#carriers.set(token, [pid]);
    }
  }

  pids(): Iterable<number> {
    return this.#uids.keys();
  }

  get(pid: number): ProcessInfo | undefined {
    if (this.#infos.has(pid)) return this.#infos.get(pid);
    const length = readInto(`/proc/${pid}/stat`, MOST_STAT);
    const info = length === undefined ? undefined : parseStat(pid, buffer.toString('latin1', 0, length));
    this.#infos.set(pid, info);
    return info;
  }

  uidOf(pid: number): number | undefined {
    return this.#uids.get(pid);
  }

  tokensOf(pid: number): Tokens | undefined {
    return this.#tokens.get(pid);
  }

  withToken(token: string): readonly number[] {
    return this.#carriers.get(token) ?? [];
  }

  holders(root: HeldRoot): readonly number[] {
    this.#locks ??= listLockedInodes();
    if (this.#locks !== 'all' && !this.#locks.has(root.identity.tmp_ino) && showsInodes(root.path)) return [];
    this.#byName ??= groupByName(this.#listLinks());
    const links = this.#byName.get(basename(root.path)) ?? [];
    return [...new Set(links.filter((link) => isHold(link, root)).map(({ pid }) => pid))];
  }

  visitors(path: string): ReadonlyMap<number, Location> {
    const found = new Map<number, Location>();
    const isBelow = (link: string) => link === path || link.startsWith(`${path}/`) || link === `${path} (deleted)`;
    for (const { pid, path: link } of this.#listLinks()) if (isBelow(link)) found.set(pid, 'file');
    for (const pid of this.#living()) {
      for (const what of ['exe', 'root', 'cwd'] as const) {
        if (isBelow(readLink(`/proc/${pid}/${what}`))) found.set(pid, what);
      }
    }
    return found;
  }

  /** The processes of ours that may have descriptors; pid 1 is nobody's whatever it has open. */
  #living(): number[] {
    return [...this.#uids].flatMap(([pid, uid]) => {
      const info = uid === this.uid && pid !== 1 ? this.get(pid) : undefined;
      return info && !info.dead && !info.kernel ? [pid] : [];
    });
  }

  #listLinks(): readonly Link[] {
    this.#links ??= this.#living().flatMap((pid) =>
      namesIn(`/proc/${pid}/fd`)
        .slice(0, MOST_FDS)
        .map((fd) => ({ pid, fd: Number(fd), path: readLink(`/proc/${pid}/fd/${fd}`) }))
        .filter(({ path }) => path.startsWith('/')),
    );
    return this.#links;
  }

  argv(pid: number): readonly string[] {
    const length = readInto(`/proc/${pid}/cmdline`, MOST_ARGV) ?? 0;
    return length === 0 ? [] : buffer.toString('utf8', 0, length).replace(/\0$/, '').split('\0');
  }

  stdio(pid: number): readonly [string, string, string] {
    const link = (fd: number) => readLink(`/proc/${pid}/fd/${fd}`);
    return [link(0), link(1), link(2)];
  }

  sharesMounts(pid: number): boolean {
    const own = readLink('/proc/self/ns/mnt');
    return own !== '' && own === readLink(`/proc/${pid}/ns/mnt`);
  }

  countUnreadable(): number {
    return this.#unreadable;
  }
}

/** Reads a file of /proc into the buffer, which grows up to `most` bytes; gives the length, or undefined. */
function readInto(path: string, most: number): number | undefined {
  let fd: number | undefined;
  try {
    fd = openSync(path, 'r');
    for (let length = 0; ; ) {
      const room = Math.min(buffer.length, most) - length;
      const got = readSync(fd, buffer, length, room, null);
      length += got;
      // The kernel fills what it is given but at the end.
      if (got < room || length >= most) return length;
      const bigger = Buffer.allocUnsafe(Math.min(buffer.length * 4, most));
      buffer.copy(bigger, 0, 0, length);
      buffer = bigger;
    }
  } catch {
    return undefined;
  } finally {
    if (fd !== undefined) closeSync(fd);
  }
}

/** The tokens in the buffer. Whole entries only: a value that quotes one is no token. */
function parseTokens(length: number): Tokens | 'none' {
  const at = buffer.subarray(0, length).indexOf('FM_TASK_');
  if (at < 0) return 'none';
  const own: string[] = [];
  const parent: string[] = [];
  const text = buffer.toString('latin1', Math.max(0, at - 1), length);
  for (const [, name, token] of text.matchAll(/(?:^|\0)FM_TASK_(PARENT|TOKEN)=([^\0]+)/g)) {
    (name === 'TOKEN' ? own : parent).push(token as string);
  }
  return own.length + parent.length === 0 ? 'none' : { own, parent };
}

function readTokens(pid: number): Tokens | 'none' | 'starting' | 'unreadable' {
  const length = readInto(`/proc/${pid}/environ`, MOST_ENVIRON);
  if (length) return parseTokens(length);
  // Nothing: `env -i`; or a process whose first thread ended while others run on, whose environment is theirs.
  if (isZombie(pid)) return readThreadTokens(pid);
  if (length === undefined) return ownerOf(pid) === undefined ? 'none' : 'unreadable';
  // Within exec(2) there is neither an environment nor an argument yet (B03).
  return readInto(`/proc/${pid}/cmdline`, MOST_ARGV) === 0 ? 'starting' : 'none';
}

function readThreadTokens(pid: number): Tokens | 'none' | 'unreadable' {
  for (const thread of namesIn(`/proc/${pid}/task`).slice(0, MOST_THREADS)) {
    const length = readInto(`/proc/${pid}/task/${thread}/environ`, MOST_ENVIRON);
    if (length) return parseTokens(length);
  }
  return 'unreadable';
}

/** Whether the first thread has ended. */
function isZombie(pid: number): boolean {
  return /\) Z [^)]*$/.test(readText(`/proc/${pid}/stat`));
}

function ownerOf(pid: number): number | undefined {
  try {
    return statSync(`/proc/${pid}`, { throwIfNoEntry: false })?.uid;
  } catch {
    return undefined;
  }
}

/** The inodes under an flock(2), as text; a filter only: an inode without its device proves nothing. */
function listLockedInodes(): ReadonlySet<string> | 'all' {
  const text = readLink('/proc/self/ns/pid') === FIRST_PID_NS ? readText('/proc/locks') : '';
  if (text === '') return 'all';
  return new Set([...text.matchAll(/FLOCK .* [0-9a-f]+:[0-9a-f]+:(\d+) /g)].map(([, inode]) => inode as string));
}

/** Whether /proc/locks gives the inode that lstat gives: an overlay, a FUSE or a network file system may have two. */
function showsInodes(path: string): boolean {
  try {
    return PLAIN_FILE_SYSTEMS.has(statfsSync(path).type);
  } catch {
    return false;
  }
}

/** A shared flock on this very directory through this very descriptor. */
function isHold({ pid, fd }: Link, { identity }: HeldRoot): boolean {
  if (!/^lock:.* FLOCK +\S+ +READ /m.test(readText(`/proc/${pid}/fdinfo/${fd}`))) return false;
  try {
    return isIdentity(statSync(`/proc/${pid}/fd/${fd}`, { bigint: true }), identity);
  } catch {
    return false;
  }
}

function groupByName(links: readonly Link[]): Map<string, Link[]> {
  const groups = new Map<string, Link[]>();
  for (const link of links) {
    const name = lastName(link.path);
    const group = groups.get(name);
    if (group) group.push(link);
    else groups.set(name, [link]);
  }
  return groups;
}

/** A root that was removed under its holder reads "/tmp/x (deleted)". */
function lastName(path: string): string {
  return basename(path.replace(/ \(deleted\)$/, ''));
}
