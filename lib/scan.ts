/**
 * Which processes of a task live (design section 9): those that a teardown would end, and those of a task inside it. One
 * table serves every task that is asked about. Loaded when a record says that a task was there.
 */
import type { Home } from './home.ts';
import { type ProcessTable, readProcessTable } from './process-table.ts';
import { describeSelf, describeTarget } from './reap.ts';
import { judgeProcesses } from './reap-rules.ts';
import type { Judgement, Self } from './reap-target.ts';
import type { TaskRecord } from './record.ts';
import type { Carrier } from './verdict.ts';

export class Scan {
  readonly #home: Home;
  #table: ProcessTable | undefined;
  #self: Self | undefined;

  constructor(home: Home) {
    this.#home = home;
  }

  /** Read at the first question. @throws an errno where /proc cannot be read */
  get table(): ProcessTable {
    this.#table ??= readProcessTable();
    return this.#table;
  }

  /** All that is tied to the task. @throws TaskError CONFIG for an unreadable config/reap-spare */
  readonly judge = (record: TaskRecord): Judgement[] => {
    this.#self ??= describeSelf(this.#home, this.table);
    return judgeProcesses(this.table, describeTarget(record), this.#self);
  };

  /** What makes a task whose command is dead a detached one. What is spared does not. @throws as judge */
  readonly carriers = (record: TaskRecord): Carrier[] =>
    this.judge(record)
      .filter(({ verdict }) => verdict !== 'spare')
      .map(({ process: { pid, name }, verdict }) => ({ pid, name, inner: verdict === 'inner' }));
}
