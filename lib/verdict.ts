/** Is a task running? (design section 9). Unknown is never dead. */
import { comparePlace, type Machine } from './machine.ts';
import { probeProcess } from './processes.ts';
import type { TaskRecord } from './record.ts';
import { printable } from './text.ts';

/** A living process that keeps a task from being dead. */
export interface Carrier {
  readonly pid: number;
  /** The program's name as the kernel has it, at most 15 bytes. */
  readonly name: string;
  /** It belongs to a task that was started inside this one. */
  readonly inner: boolean;
}

export type Verdict =
  /** The recorded process lives. */
  | { readonly is: 'running'; readonly pid: number }
  /** It is dead, but processes of the task, or of a task that was started inside it, live. */
  | { readonly is: 'detached'; readonly carriers: readonly Carrier[]; readonly held: boolean }
  /** Nobody's process: running until teardown is called for it. */
  | { readonly is: 'held' }
  | { readonly is: 'dead' }
  /** The evidence cannot be read, or is another machine's. */
  | { readonly is: 'unknown'; readonly reason: string };

/** `find` gives the living processes of the task (scan.ts); it is called only when the answer depends on it. */
export function judgeTask(
  record: TaskRecord,
  here: Machine,
  find: (record: TaskRecord) => readonly Carrier[],
): Verdict {
  const place = comparePlace(record, here);
  if (place === 'unknown') {
    return { is: 'unknown', reason: `it belongs to another machine, container or pid namespace (host ${record.host})` };
  }
  if (place === 'past') return { is: 'dead' };
  if (record.pid !== '') {
    const pid = Number(record.pid);
    const process = probeProcess(pid, record.pid_start);
    if (process === 'unreadable') return { is: 'unknown', reason: `process ${pid} cannot be read` };
    if (process === 'alive') return { is: 'running', pid };
  }
  const carriers = find(record);
  if (carriers.length > 0) return { is: 'detached', carriers, held: record.state === 'held' };
  return record.state === 'held' ? { is: 'held' } : { is: 'dead' };
}

/** Why a task is not dead, for a message. */
export function describeVerdict(verdict: Exclude<Verdict, { is: 'dead' }>): string {
  switch (verdict.is) {
    case 'running':
      return `it is running as pid ${verdict.pid}`;
    case 'detached':
      return `${verdict.held ? 'it is held, and' : 'its command ended, but'} processes of it live: ${listCarriers(verdict.carriers)}`;
    case 'held':
      return 'it is held';
    case 'unknown':
      return verdict.reason;
  }
}

function listCarriers(carriers: readonly Carrier[]): string {
  const named = carriers
    .slice(0, 5)
    .map(({ pid, name, inner }) => `${pid} (${printable(name)}${inner ? ', of a task inside it' : ''})`);
  const rest = carriers.length - named.length;
  return named.join(', ') + (rest > 0 ? ` and ${rest} more` : '');
}
