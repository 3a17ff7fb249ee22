/** The library's public exports, nothing else. No process is ended and no environment is read at import. */
export { type ErrorCode, TaskError } from './errors.ts';
export type { KeptEntry } from './kept.ts';
export {
  type LibraryOptions,
  listTasks,
  type PreparedTask,
  type PrepareSettings,
  prepareTask,
  type ReportedTeardown,
  type SpawnSettings,
  spawnTask,
  type TeardownSettings,
  teardownTask,
} from './library.ts';
export type { ProcessReport } from './reap-report.ts';
export type { Removed } from './remove.ts';
export type { RunResult } from './run.ts';
export type { Listing, TaskProcess, TaskStatus } from './status.ts';
export type { TeardownResult } from './teardown.ts';
