/** Hostile trees from a seed, and the canary beside them: whatever is done to a tree, nothing about the canary may change. */
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  lchownSync,
  linkSync,
  lstatSync,
  lutimesSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';

/** A small generator of numbers in [0, 1) (mulberry32): one seed, one tree. */
export function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

export interface Canary {
  readonly path: string;
  /** Files that trees may hold hard links to: their link count and ctime change when such a link goes. */
  readonly linked: string;
  readonly dir: string;
  readonly file: string;
}

/** Folders and files with odd modes and old times, as far from what a removal may touch as can be. */
export function plantCanary(path: string, uid: number): Canary {
  const canary = { path, linked: join(path, 'linked'), dir: join(path, 'dir'), file: join(path, 'dir', 'file') };
  mkdirSync(join(canary.dir, 'sub', 'locked'), { recursive: true });
  mkdirSync(canary.linked);
  writeFileSync(canary.file, 'canary');
  writeFileSync(join(canary.dir, 'sub', 'locked', 'kept'), 'kept');
  symlinkSync('file', join(canary.dir, 'link'));
  for (let index = 0; index < 4; index++) writeFileSync(join(canary.linked, String(index)), `linked ${index}`);
  const paths = pathsOf(canary);
  for (const each of paths) lchownSync(each, uid, uid);
  chmodSync(join(canary.dir, 'sub', 'locked', 'kept'), 0o444);
  chmodSync(join(canary.dir, 'sub', 'locked'), 0o555);
  chmodSync(canary.file, 0o640);
  for (const each of paths) lutimesSync(each, 1_000_000_000, 1_000_000_001);
  return canary;
}

function pathsOf({ path, linked, dir }: Canary): string[] {
  const sub = join(dir, 'sub');
  return [
    ...['kept'].map((name) => join(sub, 'locked', name)),
    join(sub, 'locked'),
    sub,
    ...['file', 'link'].map((name) => join(dir, name)),
    dir,
    ...[0, 1, 2, 3].map((name) => join(linked, String(name))),
    linked,
    path,
  ];
}

/** Everything that can be seen of a canary. The stats are taken first, as reading changes access times. */
export function describeCanary(canary: Canary): Record<string, string> {
  const stats = pathsOf(canary).map((path) => {
    const { dev, ino, mode, uid, gid, nlink, size, atimeNs, mtimeNs, ctimeNs, birthtimeNs } = lstatSync(path, {
      bigint: true,
    });
    const isLinked = path.startsWith(`${canary.linked}/`);
    const facts = [
      dev,
      ino,
      mode,
      uid,
      gid,
      size,
      atimeNs,
      mtimeNs,
      birthtimeNs,
      ...(isLinked ? [] : [nlink, ctimeNs]),
    ];
    return [path, facts.join(' ')] as const;
  });
  return Object.fromEntries(stats);
}

/** The canary's content; reading it changes access times, so it is looked at last. */
export function readCanary(canary: Canary): string[] {
  return pathsOf(canary).flatMap((path) => {
    const stat = lstatSync(path);
    return stat.isSymbolicLink() ? readlinkSync(path) : stat.isFile() ? readFileSync(path, 'utf8') : [];
  });
}

export interface Tree {
  /** How many entries it has, the root included. */
  readonly entries: number;
}

const FILE_MODES = [0o600, 0o000, 0o444, 0o4755];
const FOLDER_MODES = [0o700, 0o700, 0o000, 0o555, 0o600, 0o300, 0o111, 0o1777, 0o2750];

/** Plants a tree below an existing root and gives it to `uid`. */
export async function plantTree(root: string, canary: Canary, random: () => number, uid: number): Promise<Tree> {
  const pick = <T>(list: readonly T[]): T => list[Math.floor(random() * list.length)] as T;
  const folders: Buffer[] = [Buffer.from(root)];
  const made: { path: Buffer; mode?: number }[] = [];
  const special = { fifos: [] as string[], sockets: [] as string[] };
  const below = (folder: Buffer, name: Buffer | string) => Buffer.concat([folder, Buffer.from('/'), Buffer.from(name)]);
  const count = 20 + Math.floor(random() * 60);
  for (let index = 0; index < count; index++) {
    const folder = pick(folders);
    const name = oddName(random, index);
    const path = below(folder, name);
    const kind = random();
    if (kind < 0.35) {
      mkdirSync(path);
      folders.push(path);
    } else if (kind < 0.6) {
      writeFileSync(path, 'x'.repeat(Math.floor(random() * 9000)));
      made.push({ path, mode: pick(FILE_MODES) });
    } else if (kind < 0.8) {
      symlinkSync(
        pick([canary.dir, canary.file, `${canary.dir}/`, canary.path, '..', '.', root, 'dangling', name]),
        path,
      );
      made.push({ path });
    } else if (kind < 0.9) {
      linkSync(join(canary.linked, String(index % 4)), path);
    } else if (folder.length + 20 < 100 && folder.equals(Buffer.from(folder.toString()))) {
      (random() < 0.5 ? special.fifos : special.sockets).push(below(folder, `s${index}`).toString());
    } else {
      writeFileSync(path, '');
      made.push({ path });
    }
  }
  if (special.fifos.length > 0) execFileSync('mkfifo', special.fifos);
  for (const path of special.sockets) await plantSocket(path);
  for (const path of [...special.fifos, ...special.sockets]) made.push({ path: Buffer.from(path) });
  for (const { path, mode } of made) {
    lchownSync(path, uid, uid);
    if (mode !== undefined) chmodSync(path, mode);
  }
  // Children before their parents, which may not be entered afterwards.
  for (const path of folders.reverse()) {
    lchownSync(path, uid, uid);
    chmodSync(path, pick(FOLDER_MODES));
  }
  return { entries: count + 1 };
}

/** Any bytes but "/" and zero; the number makes it unique. */
function oddName(random: () => number, index: number): Buffer {
  const bytes = Array.from({ length: 1 + Math.floor(random() * 12) }, () => 1 + Math.floor(random() * 255));
  const name = Buffer.from(bytes.filter((byte) => byte !== 0x2f));
  return Buffer.concat([name, Buffer.from(`${random() < 0.1 ? '-rf ' : ''}${index}`)]);
}

/** A socket without a listener: closing the server takes away the name that it bound, so that is renamed before. */
async function plantSocket(path: string): Promise<void> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(`${path}~`, done));
  renameSync(`${path}~`, path);
  await new Promise((done) => server.close(done));
}
