/** Exit statuses: one table here, one in docs/exit-statuses.md, compared by a test. */
import type { ErrorCode } from './errors.ts';

/** task-spawn: its own failures; every other status is the command's. */
export const SPAWN_STATUS: Record<ErrorCode, number> = {
  USAGE: 125,
  RECORD: 125,
  SURVIVED: 125,
  IO: 125,
  BUSY: 125,
  NOT_OURS: 125,
  CONFIG: 125,
  ABORTED: 125,
  COMMAND_NOT_RUNNABLE: 126,
  COMMAND_NOT_FOUND: 127,
};

/** task-teardown and task-status (the last three codes are spawn's and cannot occur). */
export const TEARDOWN_STATUS: Record<ErrorCode, number> = {
  USAGE: 64,
  RECORD: 65,
  SURVIVED: 69,
  IO: 74,
  BUSY: 75,
  NOT_OURS: 77,
  CONFIG: 78,
  ABORTED: 70,
  COMMAND_NOT_RUNNABLE: 70,
  COMMAND_NOT_FOUND: 70,
};

/** An error nobody foresaw: a bug of ours. */
export const BUG = { spawn: 125, teardown: 70 } as const;

/** Of several results the first that occurs here is returned (design: several ids). */
const ORDER = [BUG.teardown, 65, 69, 74, 77, 78, 1, 75];

/** The status for several results, worst first; never 0 when one of them is not. */
export function worstStatus(statuses: readonly number[]): number {
  return ORDER.find((status) => statuses.includes(status)) ?? statuses.find((status) => status !== 0) ?? 0;
}
