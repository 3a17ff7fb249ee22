/** The operation behind task-status: what exists, what is live, what was kept and why. Reads only, takes no lock. */
import { join } from 'node:path';
import { realpathSync } from './fs.ts';
import type { Home } from './home.ts';
import { comparePlace, type Machine } from './machine.ts';
import { isTaskId, rootPrefix } from './paths.ts';
import { namesIn, readMemory } from './proc-read.ts';
import type { ProcessInfo } from './processes.ts';
import type { Evidence } from './reap-target.ts';
import type { TaskRecord } from './record.ts';
import { listRecordIds, type Reading, readRecord } from './record-file.ts';
import { inspectRoot } from './root.ts';
import { Scan } from './scan.ts';
import { describeDistrust } from './task.ts';
import { describeVerdict, judgeTask } from './verdict.ts';

/** A living process of a task. */
export interface TaskProcess {
  readonly pid: number;
  /** The program's name as the kernel has it; never the arguments, which carry secrets. */
  readonly command: string;
  readonly evidence: readonly Evidence[];
  /** What it has in RAM, in KiB; left out where that is not known. */
  readonly memoryKiB?: number;
  /** Why a teardown would spare it; left out where it would not. */
  readonly spared?: string;
}

export interface TaskStatus {
  readonly id: string;
  /** running, detached, held, finished, unknown, creating, removing, leftover, unreadable, moved, notes. */
  readonly state: string;
  /** The root, where the record names one. */
  readonly root?: string;
  /** What is at the root now: own, absent, unborn, foreign, elsewhere, uncertain. */
  readonly rootIs?: string;
  /** ISO 8601, UTC. */
  readonly createdAt?: string;
  readonly pid?: number;
  readonly command?: string;
  /** Its living processes, the recorded one included; those of tasks inside it are theirs. */
  readonly processes?: readonly TaskProcess[];
  /** Why it is as it is; empty where nothing is to be said. */
  readonly reason: string;
  /** What to do next; empty where nothing is to be done. */
  readonly next: string;
  /** Keys of the record that are not ours. */
  readonly keys: Readonly<Record<string, string>>;
}

export interface Listing {
  readonly tasks: readonly TaskStatus[];
  /** Directories in a base that look like this home's but have no record: never removed by us. */
  readonly unrecorded: readonly string[];
  /** Processes of ours whose environment cannot be read: nobody's; 0 when no task made us look. */
  readonly unreadable: number;
}

/** All tasks of a home, or those asked for (an id without a record is left out). `bases` are looked through besides the recorded ones. */
export function listTasks(
  home: Home,
  here: Machine,
  ids: readonly string[] | undefined,
  bases: readonly string[],
): Listing {
  const readings = (ids ?? listRecordIds(home.state)).map((id) => [id, readRecord(home, id)] as const);
  const scan = new Scan(home);
  const tasks = readings.flatMap(([id, reading]) => describeTask(home, here, id, reading, scan) ?? []);
  const unreadable = readings.some(([, { kind }]) => kind === 'task') ? scan.table.countUnreadable() : 0;
  return { tasks, unrecorded: ids ? [] : listUnrecorded(home, readings, bases), unreadable };
}

function describeTask(home: Home, here: Machine, id: string, reading: Reading, scan: Scan): TaskStatus | undefined {
  switch (reading.kind) {
    case 'none':
      // It vanished while this was looked at: a teardown finished.
      return undefined;
    case 'notes':
      return {
        id,
        state: 'notes',
        reason: "an orchestrator's own record: no directory, no process of ours",
        next: '',
        keys: Object.fromEntries(reading.entries),
      };
    case 'unreadable':
    case 'moved':
      return {
        id,
        state: reading.kind,
        reason: describeDistrust(home, id, reading),
        next: `task-teardown --forget ${id}`,
        keys: {},
      };
  }
  const { record, birth } = reading;
  const root = inspectRoot(home, record, birth, here);
  const life = describeLife(record, here, scan);
  const rootReason =
    root.is === 'own' || root.is === 'unborn' ? '' : root.is === 'absent' ? 'its directory is missing' : root.reason;
  return {
    id,
    ...life,
    root: record.tasktmp,
    rootIs: root.is,
    createdAt: record.created_at,
    command: JSON.parse(record.command) as string,
    processes: comparePlace(record, here) === 'here' ? listProcesses(record, life.pid, scan) : [],
    reason: [life.reason, life.state === 'leftover' ? '' : rootReason].filter(Boolean).join('; '),
    keys: Object.fromEntries(record.extra),
  };
}

function describeLife(
  record: TaskRecord,
  here: Machine,
  scan: Scan,
): Pick<TaskStatus, 'state' | 'reason' | 'next' | 'pid'> {
  const teardown = `task-teardown ${record.id}`;
  switch (record.state) {
    case 'creating':
    case 'removing':
      return { state: record.state, reason: 'at work, or killed in the middle', next: teardown };
    case 'leftover':
      return { state: 'leftover', reason: record.leftover_reason ?? '', next: `put that right, then ${teardown}` };
  }
  const verdict = judgeTask(record, here, scan.carriers);
  switch (verdict.is) {
    case 'running':
      return { state: 'running', reason: '', next: '', pid: verdict.pid };
    case 'dead':
      return { state: 'finished', reason: '', next: teardown };
    case 'detached':
      return { state: 'detached', reason: describeVerdict(verdict), next: `${teardown} ends them` };
    case 'held':
      return { state: 'held', reason: '', next: teardown };
    case 'unknown':
      return {
        state: 'unknown',
        reason: describeVerdict(verdict),
        next: `tear it down there, or task-teardown --forget ${record.id}`,
      };
  }
}

/** What lives of a task, the recorded process first; `pid` is that one's while it lives. */
function listProcesses(record: TaskRecord, pid: number | undefined, scan: Scan): TaskProcess[] {
  const main = pid === undefined ? undefined : scan.table.get(pid);
  const first = main ? [describeProcess(main, ['recorded'])] : [];
  const others = scan
    .judge(record)
    .filter(({ process, verdict }) => process.pid !== pid && verdict !== 'inner')
    .map(({ process, evidence, reason }) => ({
      ...describeProcess(process, evidence),
      ...(reason === '' ? {} : { spared: reason }),
    }));
  return [...first, ...others];
}

function describeProcess({ pid, name }: ProcessInfo, evidence: readonly Evidence[]): TaskProcess {
  const memoryKiB = readMemory(pid);
  return { pid, command: name, evidence, ...(memoryKiB === undefined ? {} : { memoryKiB }) };
}

/** By name only, and for the eye only: names prove nothing. */
function listUnrecorded(
  home: Home,
  readings: readonly (readonly [string, Reading])[],
  bases: readonly string[],
): string[] {
  const roots = new Set(readings.flatMap(([, reading]) => (reading.kind === 'task' ? [reading.record.tasktmp] : [])));
  const recorded = readings.flatMap(([, reading]) => (reading.kind === 'task' ? [reading.record.base] : []));
  const prefix = rootPrefix(home.tag);
  const found = [...new Set([...recorded, ...bases.flatMap(physical)])].flatMap((base) =>
    namesIn(base)
      .filter((name) => name.startsWith(prefix) && isTaskId(name.slice(prefix.length)))
      .map((name) => join(base, name)),
  );
  return found.filter((path) => !roots.has(path) && isUnrecorded(home, path, prefix)).sort();
}

/** Read again, as a spawn may have recorded it meanwhile; a record that cannot be trusted may cover it. */
function isUnrecorded(home: Home, path: string, prefix: string): boolean {
  const reading = readRecord(home, path.slice(path.lastIndexOf('/') + 1 + prefix.length));
  if (reading.kind === 'task') return reading.record.tasktmp !== path;
  return reading.kind === 'none' || reading.kind === 'notes';
}

function physical(base: string): string[] {
  try {
    return [realpathSync(base)];
  } catch {
    return [];
  }
}

/** How many tasks of the home are over and wait for their teardown: by their recorded process alone, which is quick. */
export function countFinished(home: Home, here: Machine): number {
  return listRecordIds(home.state).filter((id) => {
    const reading = readRecord(home, id);
    if (reading.kind !== 'task') return false;
    return (
      reading.record.state === 'leftover' ||
      (reading.record.state === 'active' && judgeTask(reading.record, here, () => []).is === 'dead')
    );
  }).length;
}
