/** task-teardown: options -> operation -> report. */

import pkg from '../../package.json' with { type: 'json' };
import { TaskError } from '../errors.ts';
import { worstStatus } from '../exit.ts';
import { findHome } from '../home.ts';
import { readMachine } from '../machine.ts';
import { describeError, report, statusOf } from '../main.ts';
import { isTerminal, writeText } from '../output.ts';
import { assertTaskId, locateHome } from '../paths.ts';
import { GRACE, type ProcessReport } from '../reap-report.ts';
import { SIGNALS } from '../signals.ts';
import {
  forgetTask,
  planTeardown,
  type TeardownContext,
  type TeardownOptions,
  type TeardownResult,
  teardownTask,
} from '../teardown.ts';
import { formatBytes, formatCount, shorten } from '../text.ts';
import { nextTurn } from '../turn.ts';
import { goToDescriptors } from '../walk-folder.ts';
import { lockWait, parseDuration, parseOptions } from './options.ts';
import { formatProcesses, SeenProcesses } from './processes.ts';
import { Progress } from './progress.ts';

export const HELP = `usage: task-teardown [options] <id> ...

Ends the life of a task: ends what it left running, removes exactly the
directory that its record names, once that is proven to be its own, and then the
record. A task whose command still runs is kept.

  --stop            end the task's command and its descendants first
  --grace-period TIME  between TERM and KILL (default 10s)
  --reap-visitors   also end what merely stands in the directory, without a
                    terminal, and started after the task
  --wait            wait for the command's end first
  --timeout TIME    wait no longer than this (default: no limit)
  --strict          a directory that had to be kept is a failure (69 or 77)
  --forget          drop only the record and say what nothing tracks any more
  --dry-run         say what would be done, and do nothing
  --json            one object on standard output
  --home DIR        the home that scopes tasks (FM_HOME)
  --lock-wait TIME  wait so long for a busy task (default 5s)
  --help, --version

Exit status: 0 done, or nothing to do; 64 usage; 65 the record cannot be
trusted; 69 something survived; 74 I/O; 75 kept, try again: running, locked,
another base; 77 (--strict) not this task's own; 78 the home cannot be used.
`;

const OPTIONS = {
  home: { type: 'string' },
  stop: { type: 'boolean' },
  'grace-period': { type: 'string' },
  'reap-visitors': { type: 'boolean' },
  wait: { type: 'boolean' },
  timeout: { type: 'string' },
  strict: { type: 'boolean' },
  forget: { type: 'boolean' },
  'dry-run': { type: 'boolean' },
  json: { type: 'boolean' },
  'lock-wait': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseOptions<typeof OPTIONS>>['values'];

/** One task's line and one object of --json; its fields are documented in docs/json.md. */
interface Report {
  readonly id: string;
  readonly outcome: string;
  readonly status: number;
  readonly message: string;
  readonly root?: string;
  readonly entries?: number;
  readonly bytes?: number;
  readonly kept?: readonly { readonly path: string; readonly reason: string }[];
  readonly processes?: readonly ProcessReport[];
}

/** Gives the exit status; human text goes to standard error. */
export async function main(args: readonly string[]): Promise<number> {
  const { values, positionals: given } = parseOptions(args, OPTIONS);
  if (values.help || values.version) {
    writeText(1, values.help ? HELP : `${pkg.version}\n`);
    return 0;
  }
  assertUsage(values, given);
  const options = readOptions(values);
  const ids = [...new Set(given)];
  const setting = locateHome(values.home, process.env);
  const uid = process.geteuid?.() ?? 0;
  const home = findHome(setting, uid, process.env, !values['dry-run']);
  if ('missing' in home) {
    return finish(
      values,
      ids.map((id) => ({ id, outcome: 'nothing', status: 0, message: `${home.missing}: nothing to do` })),
    );
  }
  const signals = new Interruption();
  const context: TeardownContext = {
    home,
    here: readMachine(),
    stop: () => signals.caught !== undefined,
    beat: signals.beat,
    // All that was relative is resolved.
    prefix: goToDescriptors(),
  };
  const seen = new SeenProcesses();
  const reports: Report[] = [];
  for (const id of ids) {
    if (context.stop()) break;
    const processes: ProcessReport[] = [];
    const progress = isTerminal(2) ? new Progress(id) : undefined;
    const watched = { ...context, ...seen.watch(processes, values.json ?? false), onProgress: progress?.show };
    const result = await handle(watched, id, values, options);
    progress?.end();
    reports.push(processes.length > 0 ? { ...result, processes } : result);
  }
  const status = finish(values, reports, seen);
  signals.raise();
  return status;
}

function assertUsage(values: Values, ids: readonly string[]): void {
  if (ids.length === 0) throw new TaskError('USAGE', 'no id: task-teardown <id> (see --help); task-status lists them');
  ids.forEach(assertTaskId);
  if (values.stop && values.wait) throw new TaskError('USAGE', '--stop and --wait contradict each other: give one');
  if (values.timeout !== undefined && !values.wait) throw new TaskError('USAGE', '--timeout goes with --wait');
  if (values.forget && (values.stop || values.wait || values['dry-run'] || values['reap-visitors']))
    throw new TaskError('USAGE', '--forget goes alone');
  if (values['dry-run'] && (values.stop || values.wait))
    throw new TaskError('USAGE', '--dry-run does not go with --stop or --wait');
}

function readOptions(values: Values): TeardownOptions {
  const { timeout, 'grace-period': grace } = values;
  const graceMs = grace === undefined ? GRACE : parseDuration('grace-period', grace);
  return {
    lockWaitMs: lockWait(values['lock-wait']),
    ...(values.wait
      ? { waitMs: timeout === undefined ? Number.POSITIVE_INFINITY : parseDuration('timeout', timeout) }
      : {}),
    ...(values.stop ? { stopGraceMs: graceMs } : {}),
    graceMs,
    reapVisitors: values['reap-visitors'] ?? false,
  };
}

async function handle(context: TeardownContext, id: string, values: Values, options: TeardownOptions): Promise<Report> {
  try {
    if (values.forget) return reportForgotten(id, await forgetTask(context, id, options.lockWaitMs));
    if (values['dry-run']) return reportPlan(id, planTeardown(context, id, options));
    return reportResult(id, await teardownTask(context, id, options), values.strict ?? false);
  } catch (error) {
    const outcome = error instanceof TaskError ? 'kept' : 'failed';
    return { id, outcome, status: statusOf('task-teardown', error), message: describeError(error) };
  }
}

function reportForgotten(id: string, { is, untracked }: { is: string; untracked: string }): Report {
  const message =
    is === 'nothing' ? 'no record: nothing to forget' : `forgotten; nothing tracks this any more: ${untracked}`;
  return { id, outcome: is, status: 0, message };
}

function reportPlan(id: string, { root, plan }: ReturnType<typeof planTeardown>): Report {
  const outcome = 'planned';
  switch (plan.do) {
    case 'nothing':
      return { id, outcome, status: 0, message: 'nothing of ours: nothing would be done' };
    case 'drop':
      return { id, outcome, status: 0, root: root ?? '', message: `${root} is gone: its record would be dropped` };
    case 'discard':
    case 'remove':
      return { id, outcome, status: 0, root: root ?? '', message: `would remove ${root} and its record` };
    case 'keep':
      return { id, outcome, status: 0, root: root ?? '', message: `would keep ${root}: ${plan.reason}` };
  }
}

function reportResult(id: string, result: TeardownResult, strict: boolean): Report {
  switch (result.is) {
    case 'nothing':
      return { id, outcome: result.is, status: 0, message: 'no record: nothing to do' };
    case 'notes':
      return { id, outcome: result.is, status: 0, message: "the record is an orchestrator's own: left as it is" };
    case 'gone':
      return {
        id,
        outcome: 'removed',
        status: 0,
        root: result.root,
        entries: 0,
        bytes: 0,
        message: `${result.root} was gone already: record dropped`,
      };
    case 'removed': {
      const { root, entries, bytes } = result;
      return {
        id,
        outcome: result.is,
        status: 0,
        root,
        entries,
        bytes,
        message: `removed ${root} (${formatCount(entries, 'entry', 'entries')}, ${formatBytes(bytes)})`,
      };
    }
    case 'leftover': {
      const { root, own, reason, kept } = result;
      const status = strict ? statusOf('task-teardown', new TaskError(own ? 'SURVIVED' : 'NOT_OURS', reason)) : 0;
      const what = kept.map((entry) => `; ${JSON.stringify(shorten(entry.path))}: ${entry.reason}`).join('');
      return {
        id,
        outcome: result.is,
        status,
        root,
        kept,
        message: `kept ${root}: ${reason}${what}; put that right, then task-teardown ${id}`,
      };
    }
  }
}

/** Prints all reports and gives the status of all. */
function finish(values: Values, reports: readonly Report[], seen: SeenProcesses = new SeenProcesses()): number {
  const status = worstStatus(reports.map((report) => report.status));
  for (const { id, message, processes = [] } of reports) {
    for (const line of [...formatProcesses(processes), message]) report('task-teardown', `${id}: ${line}`);
  }
  for (const gap of seen.gaps) report('task-teardown', gap);
  if (values.json)
    writeText(1, `${JSON.stringify({ version: 1, status, tasks: reports, unreadable: seen.unreadable }, null, 2)}\n`);
  return status;
}

/** Remembers the first signal, so that a removal stops between two entries; afterwards it is raised again. */
class Interruption {
  caught: NodeJS.Signals | undefined;
  readonly #listener = (signal: NodeJS.Signals) => {
    this.caught ??= signal;
  };

  constructor() {
    for (const signal of SIGNALS) process.on(signal, this.#listener);
  }

  readonly beat = async (): Promise<void> => {
    await nextTurn();
    if (this.caught) throw new TaskError('BUSY', `stopped by ${this.caught}: run it again`);
  };

  /** Ends this process as the signal would have. */
  raise(): void {
    for (const signal of SIGNALS) process.off(signal, this.#listener);
    if (this.caught) process.kill(process.pid, this.caught);
  }
}
