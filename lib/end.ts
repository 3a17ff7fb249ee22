/** Waiting for a task's recorded process, and ending it. No lock is held here; its identity is proved before each signal. */
import { TaskError } from './errors.ts';
import { readProcessTable } from './process-table.ts';
import { lineage, probeProcess } from './processes.ts';
import { assertNoInner, describeSelf, describeTarget, endAll, reportOf } from './reap.ts';
import type { ReapContext } from './reap-report.ts';
import { judgeProcesses } from './reap-rules.ts';
import type { Judgement } from './reap-target.ts';
import type { TaskRecord } from './record.ts';
import { sleep } from './turn.ts';

/** How often a process is looked at, in milliseconds. */
const INTERVAL = 20;

export interface EndContext {
  /** Called between two looks; throws to give up. */
  readonly beat: () => Promise<void>;
}

/** Waits for the end of the recorded process, at most `ms`. @throws TaskError BUSY when it still runs then. */
export async function waitForEnd(record: TaskRecord, ms: number, context: EndContext): Promise<void> {
  if (await isGone(record, ms, context)) return;
  throw new TaskError(
    'BUSY',
    `the task ${record.id} still runs as pid ${record.pid}: wait longer with --timeout, or end it with --stop`,
  );
}

/**
 * --stop: TERM, wait `graceMs` milliseconds, KILL, for the recorded process and, in the same snapshot, its descendants and
 * the session it leads (design section 10). Of a process that was given (--pid) itself alone; of a dead one nothing, as
 * then neither proves anything (B11). @throws TaskError BUSY for an ancestor of ours and while a task inside it runs,
 * SURVIVED when anything lives on
 */
export async function endTask(record: TaskRecord, graceMs: number, context: EndContext & ReapContext): Promise<void> {
  const pid = Number(record.pid);
  if (lineage(process.pid).has(pid)) {
    throw new TaskError(
      'BUSY',
      `the task ${record.id} is what this command runs in: it is not ended from inside; leave "task-teardown --wait ${record.id}" in the background`,
    );
  }
  const table = readProcessTable();
  const main = table.get(pid);
  if (main?.dead !== false || main.start !== record.pid_start) return;
  const living = record.command === '""' ? undefined : main;
  const judged = judgeProcesses(table, { ...describeTarget(record), living }, describeSelf(context.home, table));
  assertNoInner(record.id, judged);
  const others = judged.filter(
    ({ process, verdict, evidence }) =>
      verdict === 'end' && process.pid !== pid && (evidence.includes('descendant') || evidence.includes('session')),
  );
  const first: Judgement = { process: main, evidence: ['recorded'], verdict: 'end', reason: '', remedy: '' };
  await endAll(context, record.id, [first, ...others], graceMs);
  // What the token or the hold ties to the task is named again by the reaping; the rest only now.
  const onlyNow = ({ evidence }: Judgement) => !evidence.includes('token') && !evidence.includes('hold');
  for (const spared of judged.filter((each) => each.verdict === 'spare' && each.process.pid !== pid && onlyNow(each))) {
    context.onProcess?.(reportOf(spared, 'spared'));
  }
}

async function isGone(record: TaskRecord, ms: number, context: EndContext): Promise<boolean> {
  for (const end = process.uptime() * 1000 + ms; ; ) {
    const found = probeProcess(Number(record.pid), record.pid_start);
    if (found === 'unreadable')
      throw new TaskError('BUSY', `pid ${record.pid} of the task ${record.id} cannot be read: kept`);
    if (found === 'dead') return true;
    if (process.uptime() * 1000 >= end) return false;
    await context.beat();
    await sleep(INTERVAL);
  }
}
