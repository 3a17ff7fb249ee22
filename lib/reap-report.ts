/** What a reaping is told and what it reports: small, so that who only passes it on loads nothing else. */
import type { Home } from './home.ts';
import type { ProcessTable } from './process-table.ts';
import type { Evidence } from './reap-target.ts';

/** How long processes have between TERM and KILL unless told, in milliseconds. */
export const GRACE = 10_000;
/** What was done, or would be done, with a process of a task; an element of `processes` in --json (docs/json.md). */
export interface ProcessReport {
  readonly pid: number;
  /** The program's name as the kernel has it; never the arguments, which carry secrets. */
  readonly command: string;
  readonly evidence: readonly Evidence[];
  /** 'would end' in a dry run. */
  readonly action: 'ended' | 'killed' | 'spared' | 'survived' | 'would end';
  /** From the first signal until it was gone, in milliseconds; 0 where none was sent. */
  readonly durationMs: number;
  /** Why it was spared ... */
  readonly reason?: string;
  /** ... and what to do about it. */
  readonly remedy?: string;
}

export interface ReapContext {
  readonly home: Home;
  /** Between TERM and KILL, in milliseconds; GRACE by default. */
  readonly graceMs?: number | undefined;
  /** Asked between two looks; true stops the reaping where it is. */
  readonly stop: () => boolean;
  /** Gets each process that is ended, spared, or survives. */
  readonly onProcess?: ((report: ProcessReport) => void) | undefined;
  /** Gets the last table, for what it could not look at. */
  readonly onScan?: ((table: ProcessTable) => void) | undefined;
}
