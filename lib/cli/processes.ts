/** A teardown's processes as people read them, one line for what was ended and one for each that was spared. */
import type { ProcessTable } from '../process-table.ts';
import type { ProcessReport } from '../reap-report.ts';
import { printable } from '../text.ts';

/** Collects what the looks at the processes gave, over all ids of a command. */
export class SeenProcesses {
  /** Processes of ours whose environment cannot be read; counted for --json only. */
  unreadable = 0;
  readonly gaps = new Set<string>();

  /** What a teardown's context is to have; `count`: also count what cannot be read, which takes a look at all. */
  watch(processes: ProcessReport[], count: boolean) {
    return {
      onProcess: (report: ProcessReport) => {
        processes.push(report);
      },
      onScan: (table: ProcessTable) => {
        if (count) this.unreadable = table.countUnreadable();
        for (const gap of table.gaps) this.gaps.add(gap);
      },
    };
  }
}

/** "ended 12 (sleep; token), 13 (node; hold)"; "spared 14 (tmux: server; token): a shared server: …". */
export function formatProcesses(processes: readonly ProcessReport[]): string[] {
  const name = ({ pid, command, evidence }: ProcessReport) => `${pid} (${printable(command)}; ${evidence.join(', ')})`;
  const list = (action: ProcessReport['action']) => {
    const found = processes.filter((each) => each.action === action);
    return found.length === 0 ? [] : [`${action} ${found.map(name).join(', ')}`];
  };
  const spared = processes
    .filter(({ action }) => action === 'spared')
    .map((each) => `spared ${name(each)}: ${each.reason}; ${each.remedy}`);
  return [...list('would end'), ...list('ended'), ...list('killed'), ...list('survived'), ...spared];
}
