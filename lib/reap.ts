/**
 * Ends what a task left running (design section 10): scan, TERM, wait until gone, KILL, wait, and scan again until two
 * scans in a row find nothing. Identity is proved again right before each signal (processes.ts). What survives is an
 * error, and then nothing of the task may be removed (B05).
 */
import { TaskError } from './errors.ts';
import type { Home } from './home.ts';
import { type ProcessTable, readProcessTable } from './process-table.ts';
import { probeProcess, signalProcess } from './processes.ts';
import { GRACE, type ProcessReport, type ReapContext } from './reap-report.ts';
import { judgeProcesses } from './reap-rules.ts';
import type { Judgement, ReapTarget, Self } from './reap-target.ts';
import { lineOf } from './reap-ties.ts';
import { isBorn, type TaskRecord } from './record.ts';
import { readReapSpare } from './shared-servers.ts';
import { printable } from './text.ts';
import { sleep } from './turn.ts';

/** How long one may take to disappear after SIGKILL, in milliseconds. */
const AFTER_KILL = 5000;
/** How often processes are looked at while they are waited for, in milliseconds. */
const INTERVAL = 10;
/** After so many passes what is found has had its chance: KILL at once. */
const PATIENT_PASSES = 5;
/** So many looks that missed something are taken again, over all. */
const MOST_HASTY = 6;
/** What still appears after so many passes survives us. */
const MOST_PASSES = 50;

/** Who we are, for the rules. `config/reap-spare` is read when a rule asks for it. */
export function describeSelf(home: Home, table: ProcessTable): Self {
  let spare: ReadonlySet<string> | undefined;
  const { pid } = process;
  return {
    pid,
    lineage: new Set(lineOf(table, pid)),
    stdio: table.stdio(pid),
    spare: () => {
      spare ??= readReapSpare(home);
      return spare;
    },
  };
}

/** What a record says about its processes. The root counts as a hold's where it has an identity. */
export function describeTarget(record: TaskRecord): ReapTarget {
  const { tasktmp: path, tmp_dev, tmp_ino, tmp_btime } = record;
  return {
    token: record.token,
    root: isBorn(record) ? { path, identity: { tmp_dev, tmp_ino, tmp_btime } } : undefined,
    tty: record.tty_nr,
    since: record.pid_start || undefined,
  };
}

/**
 * Ends the target's processes and reports each; says whether there were any. @throws TaskError BUSY when a task inside it runs (nothing was ended
 * then), or when told to stop; SURVIVED when a process lives on; CONFIG for an unreadable config/reap-spare
 */
export async function reapTask(context: ReapContext, id: string, target: ReapTarget): Promise<boolean> {
  let ended = false;
  for (let empty = 0, hasty = 0, passes = 0; ; ) {
    const table = readProcessTable();
    const self = describeSelf(context.home, table);
    // One that forks and ends all the time is easily missed: look again, but not for ever on a busy machine.
    if (table.missed === 0 || hasty++ >= MOST_HASTY) empty++;
    // Visitors that are only to be named are looked for once, at the end.
    const last = empty === 2;
    const visitors = last || target.visitors === 'end' ? target.visitors : undefined;
    const judged = judgeProcesses(table, { ...target, visitors }, self);
    assertNoInner(id, judged);
    const found = judged.filter(({ verdict }) => verdict === 'end');
    if (found.length > 0) {
      if (++passes > MOST_PASSES) throw survival(context, id, found);
      await endAll(context, id, found, passes > PATIENT_PASSES ? 0 : (context.graceMs ?? GRACE));
      ended = true;
      empty = 0;
    } else if (last) {
      for (const judgement of judged) context.onProcess?.(reportOf(judgement, 'spared'));
      context.onScan?.(table);
      return ended;
    }
  }
}

/** What reapTask would find, from the same decisions. @throws TaskError BUSY, CONFIG as it does */
export function previewReaping(context: ReapContext, id: string, target: ReapTarget): void {
  const table = readProcessTable();
  const judged = judgeProcesses(table, target, describeSelf(context.home, table));
  assertNoInner(id, judged);
  for (const judgement of judged) {
    context.onProcess?.(reportOf(judgement, judgement.verdict === 'end' ? 'would end' : 'spared'));
  }
  context.onScan?.(table);
}

/** @throws TaskError BUSY naming the processes of a task that was started inside this one and runs. */
export function assertNoInner(id: string, judged: readonly Judgement[]): void {
  const inner = judged.filter(({ verdict }) => verdict === 'inner');
  if (inner.length === 0) return;
  throw new TaskError(
    'BUSY',
    `the task ${id} is kept: a task that was started inside it runs: ${listNames(inner)}; tear that one down first (task-status lists it)`,
  );
}

/** TERM, wait at most `graceMs`, KILL, wait. @throws TaskError SURVIVED, BUSY */
export async function endAll(
  context: Pick<ReapContext, 'stop' | 'onProcess'>,
  id: string,
  found: readonly Judgement[],
  graceMs: number,
): Promise<void> {
  const begun = process.uptime();
  let rest = found;
  for (const [name, ms, action] of [
    ['SIGTERM', graceMs, 'ended'],
    ['SIGKILL', AFTER_KILL, 'killed'],
  ] as const) {
    for (const judgement of rest) {
      signalProcess(judgement.process, name);
      // A stopped process hears TERM only once it goes on.
      if (name === 'SIGTERM') signalProcess(judgement.process, 'SIGCONT');
    }
    for (const end = process.uptime() * 1000 + ms; ; ) {
      const left = rest.filter(isAlive);
      const durationMs = Math.round((process.uptime() - begun) * 1000);
      for (const judgement of rest) {
        if (!left.includes(judgement)) context.onProcess?.({ ...reportOf(judgement, action), durationMs });
      }
      rest = left;
      if (rest.length === 0) return;
      if (process.uptime() * 1000 >= end) break;
      if (context.stop())
        throw new TaskError(
          'BUSY',
          `stopped by a signal while processes of ${id} were ended: run task-teardown ${id} again`,
        );
      await sleep(INTERVAL);
    }
  }
  throw survival(context, id, rest);
}

/** What cannot be read any more counts as alive: unknown is never dead. */
function isAlive({ process: { pid, start } }: Judgement): boolean {
  return probeProcess(pid, start) !== 'dead';
}

function survival(context: Pick<ReapContext, 'onProcess'>, id: string, rest: readonly Judgement[]): TaskError {
  for (const judgement of rest) context.onProcess?.(reportOf(judgement, 'survived'));
  return new TaskError(
    'SURVIVED',
    `of the task ${id} this survived SIGKILL: ${listNames(rest)}: nothing was removed; run this again when it is gone`,
  );
}

/** What is told of a judgement. */
export function reportOf(
  { process, evidence, reason, remedy }: Judgement,
  action: ProcessReport['action'],
): ProcessReport {
  const why = reason === '' ? {} : { reason, remedy };
  return { pid: process.pid, command: process.name, evidence, action, durationMs: 0, ...why };
}

/** "12 (sleep), 13 (node) and 4 more". */
export function listNames(judged: readonly Pick<Judgement, 'process'>[]): string {
  const named = judged.slice(0, 5).map(({ process: { pid, name } }) => `${pid} (${printable(name)})`);
  const more = judged.length - named.length;
  return named.join(', ') + (more > 0 ? ` and ${more} more` : '');
}
