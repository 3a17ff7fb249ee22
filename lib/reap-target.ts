/** What a reaping looks at and what it comes to: the words of the rules (reap-rules.ts). */
import type { HeldRoot, Location, ProcessTable } from './process-table.ts';
import type { ProcessInfo } from './processes.ts';

/** What a reaping is for. */
export interface ReapTarget {
  readonly token: string;
  /** The root as recorded; undefined where it must not count, being not proven or not made. */
  readonly root: HeldRoot | undefined;
  /** The recorded controlling terminal's device number; "" or "0" for none. */
  readonly tty: string;
  /** The recorded process while it lives, is proven, and is one that task-spawn became: its descendants and session count. */
  readonly living?: Pick<ProcessInfo, 'pid' | 'start'> | undefined;
  /** Look for visitors of the root, which must be a validated one; 'end': --reap-visitors. */
  readonly visitors?: 'name' | 'end' | undefined;
  /** When the task was started, in ticks of this boot; undefined when that cannot be compared. */
  readonly since?: string | undefined;
}

/** Who is asking: never ended itself, whatever the evidence. */
export interface Self {
  readonly pid: number;
  /** Our ancestors, ourselves included. */
  readonly lineage: ReadonlySet<number>;
  readonly stdio: readonly [string, string, string];
  /** Names of config/reap-spare; asked for only when something was found. */
  readonly spare: () => ReadonlySet<string>;
}

/** 'recorded': the task's own command. 'parent': FM_TASK_PARENT is the task's token, which alone ends nothing. */
export type Evidence = 'recorded' | 'parent' | 'token' | 'hold' | 'descendant' | 'session' | Location;

export interface Judgement {
  readonly process: ProcessInfo;
  readonly evidence: readonly Evidence[];
  /** 'inner': of a task that was started inside this one, which keeps this one. */
  readonly verdict: 'end' | 'spare' | 'inner';
  /** Why it is spared, and what to do about it; both empty otherwise. */
  readonly reason: string;
  readonly remedy: string;
}

/** One process that is tied to the task, and what the rules may look at. */
export interface Candidate {
  readonly process: ProcessInfo;
  readonly evidence: readonly Evidence[];
  readonly found: ReadonlyMap<number, readonly Evidence[]>;
  readonly table: ProcessTable;
  readonly target: ReapTarget;
  readonly self: Self;
}

export interface Spare {
  readonly verdict: 'spare' | 'inner';
  readonly reason: string;
  readonly remedy: string;
}
