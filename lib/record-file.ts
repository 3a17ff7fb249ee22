/**
 * Records on disk: read without following anything, replaced whole, dropped last. Every writer here holds the task's
 * lock (lock.ts).
 */
import { statfsText, syncFolder, writeNewFile } from './durable.ts';
import { errnoOf, messageOf, TaskError, unlessMissing } from './errors.ts';
import { closeSync, constants, fstatSync, openSync, readdirSync, readSync, renameSync, unlinkSync } from './fs.ts';
import type { Home } from './home.ts';
import { recordId, taskPaths } from './paths.ts';
import { type Entry, formatRecord, isBorn, parseRecord, type TaskRecord } from './record.ts';
import { isThere } from './there.ts';

/** A record larger than this is not one of ours, in bytes. */
const MOST = 64 * 1024;

/** What every record of ours begins with. */
const SCHEMA = 'schema=';

/** When, and on which device, the record was made that announced a root: what a root without an identity is measured against. */
export interface Birth {
  readonly dev: bigint;
  readonly btime: bigint;
}

export type Reading =
  | { readonly kind: 'none' }
  | { readonly kind: 'task'; readonly record: TaskRecord; readonly birth: Birth }
  /** An orchestrator's own: no root, no process of ours. */
  | { readonly kind: 'notes'; readonly entries: readonly Entry[] }
  /** Well-formed, but written for a home at another place: never acted on. */
  | { readonly kind: 'moved'; readonly record: TaskRecord }
  | { readonly kind: 'unreadable'; readonly reason: string };

/** Reads the record of a task; never throws for what it finds there. */
export function readRecord(home: Home, id: string): Reading {
  const paths = taskPaths(home.state, id);
  try {
    // Where both exist, a writer died between its rename and the unlink below: the plain name is the newer one.
    const plain = readPlainFile(paths.record);
    const file = plain ?? readPlainFile(paths.removing);
    if (!file) return { kind: 'none' };
    const parsed = parseRecord(file.bytes, id);
    if (parsed.kind === 'notes') return parsed;
    const record = plain ? parsed.record : { ...parsed.record, state: 'removing' as const };
    if (record.home !== home.path) return { kind: 'moved', record };
    return { kind: 'task', ...carryBirth(record, file.birth) };
  } catch (error) {
    return { kind: 'unreadable', reason: errnoOf(error) === 'ELOOP' ? 'it is a symbolic link' : messageOf(error) };
  }
}

/**
 * The rewrite of a record is a younger file than the root that the record announced, so the birth of the announcement
 * goes on in it: as tmp_dev and tmp_btime, with the inode 0.
 */
function carryBirth(record: TaskRecord, birth: Birth): { record: TaskRecord; birth: Birth } {
  if (isBorn(record)) return { record, birth };
  const first = record.tmp_ino === '' ? birth : { dev: BigInt(record.tmp_dev), btime: BigInt(record.tmp_btime) };
  const announced = { tmp_dev: String(first.dev), tmp_ino: '0', tmp_btime: String(first.btime) };
  return { record: { ...record, ...announced }, birth: first };
}

function readPlainFile(path: string): { bytes: Buffer; birth: Birth } | undefined {
  const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = constants;
  const open = () => (isThere(path) ? openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) : undefined);
  const fd = unlessMissing(open);
  if (fd === undefined) return undefined;
  try {
    const stat = fstatSync(fd, { bigint: true });
    if (!stat.isFile()) throw new Error('it is not a regular file');
    if (stat.size > MOST) throw new Error(`it is larger than ${MOST / 1024} KiB`);
    const bytes = Buffer.alloc(MOST + 1);
    let length = 0;
    for (;;) {
      const read = readSync(fd, bytes, length, bytes.length - length, null);
      length += read;
      if (read === 0 || length === bytes.length) break;
    }
    if (length > MOST) throw new Error(`it is larger than ${MOST / 1024} KiB`);
    return { bytes: bytes.subarray(0, length), birth: { dev: stat.dev, btime: stat.birthtimeNs } };
  } finally {
    closeSync(fd);
  }
}

/** Takes away what a killed writer left: under the lock a staging file can only be that. */
export function clearStaging(home: Home, id: string): void {
  removeName(taskPaths(home.state, id).staging);
}

/** Replaces the record with one that can be read back: durable when this returns. @throws TaskError IO, and then the old record stands. */
export function publishRecord(home: Home, record: TaskRecord): void {
  const text = formatRecord(record);
  try {
    parseRecord(Buffer.from(text), record.id);
  } catch (error) {
    throw new TaskError('RECORD', `the record of ${record.id} cannot be written: ${messageOf(error)}`, {
      cause: error,
    });
  }
  replaceRecord(home, record.id, text);
}

/** The same for a text as it is: an orchestrator's notes put back. */
export function replaceRecord(home: Home, id: string, text: string): void {
  const paths = taskPaths(home.state, id);
  if (Buffer.byteLength(text) > MOST)
    throw new TaskError('USAGE', `the record of ${id} would exceed ${MOST / 1024} KiB: set less`);
  try {
    writeNewFile(paths.staging, text);
    renameSync(paths.staging, paths.record);
    syncFolder(home.state);
  } catch (error) {
    throw new TaskError(
      'IO',
      `cannot write the record ${paths.record}: ${messageOf(error)}${statfsText(home.state, error)}`,
      { cause: error },
    );
  }
  // The name that means "removing" goes only after its successor is on disk.
  if (removeName(paths.removing)) syncFolder(home.state);
}

/** Says "removing" without needing space: a rename. */
export function renameToRemoving(home: Home, id: string): void {
  const paths = taskPaths(home.state, id);
  unlessMissing(() => renameSync(paths.record, paths.removing));
  syncFolder(home.state);
}

/** Drops the record, after what it named is proven gone. */
export function dropRecord(home: Home, id: string): void {
  const paths = taskPaths(home.state, id);
  for (const path of [paths.record, paths.removing]) removeName(path);
  syncFolder(home.state);
}

/** Unlinks a name; false where there was none. */
function removeName(path: string): boolean {
  const unlink = () => {
    if (!isThere(path)) return false;
    unlinkSync(path);
    return true;
  };
  return unlessMissing(unlink) ?? false;
}

/** The ids that have a record, sorted; names that are no ids are given as they are. */
export function listRecordIds(state: string): string[] {
  const ids = readdirSync(state).flatMap((name) => recordId(name) ?? []);
  return [...new Set(ids)].sort();
}

/** Whether a state folder holds a record of ours, or one that cannot be told from one. */
export function hasTaskRecords(state: string): boolean {
  return listRecordIds(state).some((id) => hasTaskRecord(state, id));
}

/** The same for one id. */
export function hasTaskRecord(state: string, id: string): boolean {
  const file = taskPaths(state, id);
  try {
    const found = readPlainFile(file.record) ?? readPlainFile(file.removing);
    if (!found) return false;
    // With that first line it is ours, or unreadable.
    return found.bytes.toString('latin1', 0, SCHEMA.length) === SCHEMA || parseRecord(found.bytes, id).kind === 'task';
  } catch {
    return true;
  }
}
