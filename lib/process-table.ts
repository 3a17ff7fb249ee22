/**
 * The processes of this machine, from one pass over /proc that serves every task of a teardown, a sweep or a listing
 * (design section 10). The pass reads owners and environments; everything else is read when it is asked for, once.
 *
 * Pids are reused, so of a process that matters the start time is read before its evidence: whoever proves that start
 * again before a signal (processes.ts) has proved that the evidence was this process's own (case B89).
 */

import type { Identity } from './identity.ts';
import { ProcTable } from './proc-table.ts';
import type { ProcessInfo } from './processes.ts';
import { PsTable } from './ps-table.ts';

/** The task tokens in an environment. */
export interface Tokens {
  /** FM_TASK_TOKEN; several when an environment holds it twice. */
  readonly own: readonly string[];
  /** FM_TASK_PARENT: the outer task's. */
  readonly parent: readonly string[];
}

/** A root as its record has it: what a hold must be on. */
export interface HeldRoot {
  readonly path: string;
  readonly identity: Identity;
}

/** How a process is in a place: it stands there, has it as its root, runs a file of it, has a file of it open. */
export type Location = 'cwd' | 'root' | 'exe' | 'file';

/** What the rules look at; tests make one from rows. */
export interface ProcessTable {
  /** Whose processes are looked at: only this uid's are ever anybody's. */
  readonly uid: number;
  /** What could not be looked at for want of a tool or a permission, in words; empty on Linux. */
  readonly gaps: readonly string[];
  /** How many came and went, or were about to become another program, before they could be looked at: what looks empty then may not be. */
  readonly missed: number;
  /** All pids. */
  pids(): Iterable<number>;
  /** Undefined for a process that is gone or cannot be read. */
  get(pid: number): ProcessInfo | undefined;
  /** The effective uid, or undefined for a process that came after the pass. */
  uidOf(pid: number): number | undefined;
  tokensOf(pid: number): Tokens | undefined;
  /** The pids that carry the token, as their own or as their outer task's. */
  withToken(token: string): readonly number[];
  /** The pids that inherited the hold of the root: a shared flock on it, not merely an open descriptor. */
  holders(root: HeldRoot): readonly number[];
  /** The pids that are in the place, each with how. Costs a readlink for each descriptor of every process. */
  visitors(path: string): ReadonlyMap<number, Location>;
  /** The arguments, at most some KiB of them; empty where they cannot be read. */
  argv(pid: number): readonly string[];
  /** What descriptors 0 to 2 lead to, such as "pipe:[123]"; empty text where that is not known. */
  stdio(pid: number): readonly [string, string, string];
  /** Whether the process sees the same mounts as we do, so that its paths mean the same. */
  sharesMounts(pid: number): boolean;
  /** Processes of ours whose environment cannot be read (non-dumpable): nobody's, and counted. */
  countUnreadable(): number;
}

/** @throws an errno where /proc itself cannot be read */
export function readProcessTable(): ProcessTable {
  const uid = process.geteuid?.() ?? 0;
  return process.platform === 'linux' ? new ProcTable(uid) : new PsTable(uid);
}
