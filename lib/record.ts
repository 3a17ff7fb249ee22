/**
 * The record's format: `key=value` lines, schema first (docs/record-format.md). Strict on purpose: whatever is not
 * exactly what we write is refused and kept, never repaired by guessing (acceptance A23).
 */
import { isUtf8 } from 'node:buffer';
import { TaskError } from './errors.ts';
import { isTaskId } from './paths.ts';

type Form = (value: string) => boolean;
// An expression is compiled at every start: none where plain text does as well.
const matches =
  (form: RegExp): Form =>
  (value) =>
    form.test(value);
const oneOf =
  (...values: string[]): Form =>
  (value) =>
    values.includes(value);
const HEX_128 = matches(/^[0-9a-f]{32}$/);
const NUMBER = matches(/^\d+$/);
const NUMBER_OR_NONE: Form = (value) => value === '' || NUMBER(value);
const PATH: Form = (value) => value.startsWith('/');
const ANY: Form = () => true;

/** Our keys in the order in which they are written, each with what its value must look like. */
const REQUIRED = {
  schema: oneOf('1'),
  id: ANY,
  token: HEX_128,
  spawn_gen: HEX_128,
  state: oneOf('creating', 'active', 'held', 'removing', 'leftover'),
  created_at: matches(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
  home: PATH,
  base: PATH,
  base_dev: NUMBER,
  base_ino: NUMBER,
  tasktmp: PATH,
  tmp_dev: NUMBER_OR_NONE,
  tmp_ino: NUMBER_OR_NONE,
  tmp_btime: NUMBER_OR_NONE,
  tmpdir_pin: oneOf('0', '1'),
  host: matches(/^\S+ \S+$/),
  boot_id: matches(/^\S+$/),
  pid_ns: (value) => value === '-' || NUMBER(value),
  pid: NUMBER_OR_NONE,
  pid_start: matches(/^[\d:]*$/),
  tty_nr: NUMBER_OR_NONE,
  // A JSON string without control characters. (\p{Cc} would cost each start a millisecond.)
  command: matches(/^"(?:[ !#-[\]-~\u00a0-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"$/),
} satisfies Record<string, Form>;

/** Keys of ours that a record may lack. The ones after leftover_reason belong to parts of a task that are not built yet. */
const OPTIONAL = ['leftover_reason', 'dead_since'] as const;
const LATER = [
  'worktree',
  'repo',
  'git_dir',
  'branch',
  'branch_created',
  'base_oid',
  'worktree_removing',
  'child_home',
  'child_home_created',
] as const;

/** What may be set, in bytes: ours must always have room in the record beside it. */
const MOST_EXTRA = 32 * 1024;

type RequiredKey = keyof typeof REQUIRED;
type OptionalKey = (typeof OPTIONAL)[number];
const WRITTEN = [...Object.keys(REQUIRED), ...OPTIONAL] as (RequiredKey | OptionalKey)[];
const OURS: ReadonlySet<string> = new Set([...WRITTEN, ...LATER]);

export type TaskState = 'creating' | 'active' | 'held' | 'removing' | 'leftover';
export type Entry = readonly [key: string, value: string];

/** A task's record. Values are the file's own text: what is compared is compared as it stands on disk. */
export type TaskRecord = Readonly<Record<Exclude<RequiredKey, 'state'>, string>> &
  Readonly<Partial<Record<OptionalKey, string>>> & {
    readonly state: TaskState;
    /** Keys that are not ours, in their order: they survive every rewrite (A21). */
    readonly extra: readonly Entry[];
  };

/** What a record file turned out to be: a task of ours, or an orchestrator's own notes (no schema, no token). */
export type Parsed =
  | { readonly kind: 'task'; readonly record: TaskRecord }
  | { readonly kind: 'notes'; readonly entries: readonly Entry[] };

/** @throws Error with what is wrong, in a few words, for anything that is not exactly a record. */
export function parseRecord(bytes: Buffer, id: string): Parsed {
  if (bytes.length === 0) throw new Error('it is empty');
  if (!isUtf8(bytes)) throw new Error('it is not valid UTF-8');
  const text = bytes.toString();
  if (text.includes('\r') || text.includes('\0')) throw new Error('it holds a carriage return or a zero byte');
  if (!text.endsWith('\n')) throw new Error('its last line is cut off');
  const entries = text.slice(0, -1).split('\n').map(parseLine);
  const ours = new Map<string, string>();
  for (const [key, value] of entries) {
    if (!OURS.has(key)) continue;
    if (ours.has(key)) throw new Error(`the key ${key} stands twice`);
    ours.set(key, value);
  }
  if (!ours.has('schema') && !ours.has('token')) return { kind: 'notes', entries };
  if (!isTaskId(id)) throw new Error('its file name is not that of an id');
  if (entries[0]?.[0] !== 'schema') throw new Error('schema is not its first line');
  if (ours.get('schema') !== '1') throw new Error(`its schema ${JSON.stringify(ours.get('schema'))} is not known here`);
  for (const [key, form] of Object.entries(REQUIRED)) {
    const value = ours.get(key);
    if (value === undefined) throw new Error(`the key ${key} is missing`);
    if (!form(value)) throw new Error(`the value of ${key} is malformed`);
  }
  const known = LATER.find((key) => ours.has(key));
  if (known) throw new Error(`it holds the key ${known}, which this version does not know how to retire`);
  if (ours.get('id') !== id) throw new Error(`it is the record of ${JSON.stringify(ours.get('id'))}`);
  const record = {
    ...Object.fromEntries(ours),
    extra: entries.filter(([key]) => !OURS.has(key)),
  } as unknown as TaskRecord;
  assertTogether(record);
  return { kind: 'task', record };
}

/** What no value shows alone. @throws Error */
function assertTogether(record: TaskRecord): void {
  const { state, pid, pid_start, tty_nr, tmp_dev, tmp_ino, tmp_btime } = record;
  if ([tmp_dev, tmp_ino, tmp_btime].filter(Boolean).length % 3 !== 0)
    throw new Error('tmp_dev, tmp_ino and tmp_btime are not all given');
  const known = [pid, pid_start, tty_nr].filter(Boolean).length;
  if (known % 3 !== 0 || (known === 0 && (state === 'active' || state === 'creating')))
    throw new Error('pid, pid_start and tty_nr are not all given');
}

/** Whether a record knows the identity of its root; before that it says nothing, or 0 for the inode (record-file.ts). */
export function isBorn({ tmp_ino }: Pick<TaskRecord, 'tmp_ino'>): boolean {
  return tmp_ino !== '' && tmp_ino !== '0';
}

function parseLine(line: string): Entry {
  const at = line.indexOf('=');
  if (at < 1) throw new Error(`the line ${JSON.stringify(line.slice(0, 40))} is not key=value`);
  return [line.slice(0, at), line.slice(at + 1)];
}

/** As toISOString does, which would read the time zone and its rules at each start: a millisecond. */
export function formatTime(date: Date): string {
  const two = (number: number, digits = 2) => String(number).padStart(digits, '0');
  const day = [date.getUTCFullYear(), two(date.getUTCMonth() + 1), two(date.getUTCDate())].join('-');
  const time = [two(date.getUTCHours()), two(date.getUTCMinutes()), two(date.getUTCSeconds())].join(':');
  return `${day}T${time}.${two(date.getUTCMilliseconds(), 3)}Z`;
}

export function formatRecord(record: TaskRecord): string {
  const ours = WRITTEN.flatMap((key): Entry[] => (record[key] === undefined ? [] : [[key, record[key]]]));
  return formatEntries([...ours, ...record.extra]);
}

export function formatEntries(entries: readonly Entry[]): string {
  return entries.map(([key, value]) => `${key}=${value}\n`).join('');
}

/** The first key among an orchestrator's notes that is one of ours, or undefined. */
export function clashingKey(entries: readonly Entry[]): string | undefined {
  return entries.find(([key]) => OURS.has(key))?.[0];
}

/** Reads one `--set KEY=VALUE`. @throws TaskError USAGE */
export function parseSetting(text: string): Entry {
  const at = text.indexOf('=');
  const key = text.slice(0, Math.max(at, 0));
  if (at < 1 || !/^[a-z][a-z0-9_]*$/.test(key)) {
    throw new TaskError('USAGE', `--set ${JSON.stringify(text)} is not KEY=VALUE with a KEY of a-z, 0-9 and "_"`);
  }
  if (OURS.has(key)) throw new TaskError('USAGE', `--set ${key}: that key belongs to task-spawn: choose another name`);
  const value = text.slice(at + 1);
  if (/[\0\r\n\uFFFD]/.test(value)) {
    throw new TaskError('USAGE', `--set ${key}: a value is one line of valid UTF-8`);
  }
  return [key, value];
}

/** Entries with the settings applied: a key that is there is replaced in its place, others are added. @throws TaskError USAGE */
export function applySettings(entries: readonly Entry[], settings: readonly Entry[]): Entry[] {
  const result = [...entries];
  for (const setting of settings) {
    const at = result.findIndex(([key]) => key === setting[0]);
    if (at < 0) result.push(setting);
    else result[at] = setting;
  }
  if (settings.length > 0 && Buffer.byteLength(formatEntries(result)) > MOST_EXTRA)
    throw new TaskError('USAGE', `--set: the keys of a task are at most ${MOST_EXTRA / 1024} KiB: set less`);
  return result;
}
