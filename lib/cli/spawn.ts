/** task-spawn: options -> operation -> the sh plan on standard output, which the shim evaluates. */
import { isatty } from 'node:tty';
import pkg from '../../package.json' with { type: 'json' };
import { ignoredSignals, rawArguments, rawEnvironments, rawVariable, toLatin1 } from '../caller.ts';
import { findCommand } from '../command.ts';
import { TaskError } from '../errors.ts';
import { writeSync } from '../fs.ts';
import { readMachine } from '../machine.ts';
import { report } from '../main.ts';
import { assertTaskId, type Environment, gotmpOf, locateBase, locateHome } from '../paths.ts';
import { formatLaunch, formatPrint } from '../plan.ts';
import { readProcess } from '../processes.ts';
import { parseSetting } from '../record.ts';
import { compareEnvironments } from '../restore.ts';
import { type Prepared, prepareTask, type SpawnContext, type SpawnRequest, setKeys } from '../spawn.ts';
import { countFinished } from '../status.ts';
import { AbortTrap } from '../trap.ts';
import { lockWait, parseOptions } from './options.ts';

export const HELP = `usage: task-spawn [options] <id> -- <command> [argument ...]
       task-spawn --set KEY=VALUE [...] <id>

Runs the command as the task <id>: makes a private temp directory for it, writes
that down first, exports it, and becomes the command. task-teardown <id> ends
the task. What is in the directory is disposable: copy out what a report depends
on before the end.

  --home DIR        the home that scopes tasks (FM_HOME; else
                    \${XDG_STATE_HOME:-~/.local/state}/task-spawn)
  --base DIR        where the directory is made (FM_TASK_TMP_BASE; else /tmp)
  --pin, --no-pin   set TMPDIR to the directory, or not, whatever the flag
                    config/task-tmpdir-pin in the home says
  --set KEY=VALUE   keep a key of your own in the task's record
  --lock-wait TIME  wait so long for a busy task (default 5s)
  --help, --version

The command sees FM_HOME, FM_TASK_ID, FM_TASK_TMP (the directory),
FM_TASK_TOKEN, GOTMPDIR and, when pinned, TMPDIR.
Exit status: the command's own; 125 task-spawn failed before it started;
126 the command cannot be run; 127 it was not found.
`;

const OPTIONS = {
  home: { type: 'string' },
  base: { type: 'string' },
  pin: { type: 'boolean' },
  'no-pin': { type: 'boolean' },
  set: { type: 'string', multiple: true },
  'lock-wait': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** The names that the shim blanks for Node alone; the shell still has the caller's. Kept equal to bin/task-spawn by a test. */
export const BLANKED = [
  'TMPDIR',
  'NODE_OPTIONS',
  'NODE_CHANNEL_FD',
  'NODE_CHANNEL_SERIALIZATION_MODE',
  'NODE_UNIQUE_ID',
  'NODE_EXTRA_CA_CERTS',
  'NODE_V8_COVERAGE',
  'NODE_COMPILE_CACHE',
  'NODE_DEBUG',
  'NODE_DEBUG_NATIVE',
  'NODE_ICU_DATA',
  'NODE_PATH',
  'NODE_REDIRECT_WARNINGS',
  'OPENSSL_CONF',
] as const;

/** `args` is what the shim passes: its own pid, then its arguments. Gives the exit status; a plan only with 0. */
export async function main(args: readonly string[]): Promise<number> {
  const [shell, ...given] = args;
  const plan = await makePlan(Number(shell), given, process.env);
  const bytes = Buffer.from(plan, 'latin1');
  for (let done = 0; done < bytes.length; ) done += writeSync(1, bytes, done);
  return 0;
}

async function makePlan(shell: number, given: readonly string[], env: Environment): Promise<string> {
  const mark = given.indexOf('--');
  const { values, positionals } = parseOptions(mark < 0 ? given : given.slice(0, mark), OPTIONS);
  if (values.help) return formatPrint(HELP);
  if (values.version) return formatPrint(`${pkg.version}\n`);
  const [id, ...rest] = positionals;
  const command = mark < 0 ? [] : given.slice(mark + 1);
  assertShape(id, rest, mark, command, values.set !== undefined);
  if (values.pin && values['no-pin'])
    throw new TaskError('USAGE', '--pin and --no-pin contradict each other: give one');

  const launcher = readProcess(shell);
  if (typeof launcher === 'string' || process.ppid !== shell) {
    throw new TaskError(
      'ABORTED',
      'the launching shell cannot be found: call task-spawn through its command, not its parts',
    );
  }
  const trap = new AbortTrap(() => process.ppid !== shell, ignoredSignals(shell));
  const context: SpawnContext = { trap, here: readMachine(), uid: process.geteuid?.() ?? 0, now: () => new Date() };
  const request = {
    id,
    home: locateHome(values.home, env),
    settings: (values.set ?? []).map(parseSetting),
    lockWaitMs: lockWait(values['lock-wait']),
  };
  if (mark < 0) {
    await setKeys(context, request);
    return formatPrint('');
  }
  const pin = values.pin ? true : values['no-pin'] ? false : undefined;
  const base = { ...locateBase(values.base, env), explicit: values.base !== undefined };
  return launch(
    context,
    { ...request, base, pin, command: command[0] as string, launcher },
    { args: given.length - mark - 1, shift: mark + 1 },
  );
}

function assertShape(
  id: string | undefined,
  rest: readonly string[],
  mark: number,
  command: readonly string[],
  sets: boolean,
): asserts id is string {
  if (id === undefined) throw new TaskError('USAGE', 'no id: task-spawn <id> -- <command> (see --help)');
  if (rest.length > 0)
    throw new TaskError(
      'USAGE',
      mark < 0
        ? `put "--" before the command: task-spawn ${id} -- ${rest.join(' ')}`
        : `one id, please: ${JSON.stringify(rest[0])} stands between the id and "--"`,
    );
  assertTaskId(id);
  if (mark < 0 && !sets) throw new TaskError('USAGE', `no command: task-spawn ${id} -- <command> (see --help)`);
  if (mark >= 0 && command.length === 0)
    throw new TaskError('USAGE', `no command after "--": task-spawn ${id} -- <command>`);
}

async function launch(
  context: SpawnContext,
  request: SpawnRequest,
  counts: { args: number; shift: number },
): Promise<string> {
  const { trap } = context;
  trap.listen();
  const command = rawArguments(counts.args)[0] ?? toLatin1(request.command);
  const { file } = findCommand(command, rawVariable('PATH'));
  const prepared = await prepareTask(context, request);
  notify(context, prepared);
  const exports = taskEnvironment(prepared);
  const repair = compareEnvironments(rawEnvironments(request.launcher.pid), new Set([...BLANKED, ...exports.keys()]));
  // From here on nothing is taken back: a signal now leaves a dead task on record.
  await trap.beat();
  trap.unlisten();
  return formatLaunch({ shift: counts.shift, command, file, exports, repair });
}

/** What the command's environment has more than the caller's (design section 6), in latin1 text. */
function taskEnvironment({ home, record }: Prepared): Map<string, string> {
  const root = record.tasktmp;
  const names = {
    FM_HOME: home.path,
    FM_TASK_ID: record.id,
    FM_TASK_TMP: root,
    FM_TASK_TOKEN: record.token,
    GOTMPDIR: gotmpOf(root),
    ...(record.tmpdir_pin === '1' ? { TMPDIR: root } : {}),
  };
  return new Map(Object.entries(names).map(([name, value]) => [name, toLatin1(value)]));
}

/** On a terminal: what a person would want to know before the command takes it over. */
function notify(context: SpawnContext, { home, record, relaunched }: Prepared): void {
  if (!isatty(2)) return;
  if (relaunched) report('task-spawn', `${record.id}: relaunched; its directory is kept since ${record.created_at}`);
  const finished = countFinished(home, context.here);
  if (finished > 0)
    report(
      'task-spawn',
      `${finished} finished ${finished === 1 ? 'task waits' : 'tasks wait'} for task-teardown: see task-status`,
    );
}
