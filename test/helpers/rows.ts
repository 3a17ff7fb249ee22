/** A process table made of rows, for the rules: what is not said is ordinary. */
import type { HeldRoot, Location, ProcessTable } from '../../lib/process-table.ts';
import type { ReapTarget, Self } from '../../lib/reap-target.ts';

export interface Row {
  readonly pid: number;
  readonly ppid?: number;
  readonly start?: number;
  readonly tty?: string;
  readonly session?: number;
  readonly name?: string;
  readonly argv?: readonly string[];
  readonly uid?: number;
  readonly dead?: boolean;
  /** FM_TASK_TOKEN, FM_TASK_PARENT. */
  readonly own?: string | readonly string[];
  readonly parent?: string;
  /** It inherited the hold of the root. */
  readonly holds?: boolean;
  readonly at?: Location;
  readonly stdio?: readonly [string, string, string];
  /** It has other mounts than we. */
  readonly apart?: boolean;
}

export const UID = 1000;
export const ROOT: HeldRoot = { path: '/tmp/root', identity: { tmp_dev: '1', tmp_ino: '2', tmp_btime: '3' } };

const list = (value: string | readonly string[] | undefined) => (value === undefined ? [] : [value].flat());

export function tableOf(rows: readonly Row[]): ProcessTable {
  const at = (pid: number) => rows.find((row) => row.pid === pid);
  const pidsOf = (filter: (row: Row) => unknown) => rows.filter(filter).map(({ pid }) => pid);
  return {
    uid: UID,
    gaps: [],
    missed: 0,
    pids: () => rows.map(({ pid }) => pid),
    get: (pid) => {
      const row = at(pid);
      if (!row) return undefined;
      const { ppid = 1, start = 1000, tty = '0', session = pid, name = 'sleep', dead = false } = row;
      return { pid, ppid, start: String(start), tty, session, name, kernel: false, dead };
    },
    uidOf: (pid) => at(pid)?.uid ?? UID,
    tokensOf: (pid) => ({ own: list(at(pid)?.own), parent: list(at(pid)?.parent) }),
    withToken: (token) => pidsOf(({ own, parent }) => list(own).includes(token) || parent === token),
    holders: () => pidsOf(({ holds }) => holds),
    visitors: () => new Map(rows.flatMap(({ pid, at: what }) => (what ? [[pid, what] as const] : []))),
    argv: (pid) => at(pid)?.argv ?? [at(pid)?.name ?? 'sleep'],
    stdio: (pid) => at(pid)?.stdio ?? ['', '', ''],
    sharesMounts: (pid) => !at(pid)?.apart,
    countUnreadable: () => 0,
  };
}

/** The task of the rows: its token is "task", its terminal 34816; started at 500. */
export const TARGET: ReapTarget = { token: 'task', root: ROOT, tty: '34816', since: '500' };

/** Whoever asks: pid 90 below the shell 80. */
export const SELF: Self = {
  pid: 90,
  lineage: new Set([90, 80]),
  stdio: ['/dev/null', 'pipe:[7]', '/dev/pts/0'],
  spare: () => new Set(['my-server']),
};
