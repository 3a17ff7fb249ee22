/** The command line of task-spawn: its options, its shapes, and what is wrong with any other. */
import { TaskError } from '../errors.ts';
import { assertTaskId } from '../paths.ts';
import { parseOptions } from './options.ts';

export const HELP = `usage: task-spawn [options] <id> -- <command> [argument ...]
       task-spawn [options] -- <command> [argument ...]
       task-spawn --env [--pid N] [--json] [options] <id>
       task-spawn --set KEY=VALUE [...] <id>

Runs the command as the task <id>: makes a private temp directory for it, writes
that down first, exports it, and becomes the command. task-teardown <id> ends
the task. What is in the directory is disposable: copy out what a report depends
on before the end.

  --rm              stay as the command's parent and tear the task down when it
                    ends; implied, with an id of its own, when <id> is left out
  --env             start no command: print the exports for eval; the task is
                    held until task-teardown is called for it
  --pid N           with --env: the task is that process, such as $$
  --json            with --env: print one object instead
  --home DIR        the home that scopes tasks (FM_HOME; else
                    \${XDG_STATE_HOME:-~/.local/state}/task-spawn)
  --base DIR        where the directory is made (FM_TASK_TMP_BASE; else /tmp)
  --pin, --no-pin   set TMPDIR to the directory, or not, whatever the flag
                    config/task-tmpdir-pin in the home says
  --no-hold         no lock on the directory that keeps temp cleaners away
  --set KEY=VALUE   keep a key of your own in the task's record
  --lock-wait TIME  wait so long for a busy task (default 5s)
  --help, --version

The command sees FM_HOME, FM_TASK_ID, FM_TASK_TMP (the directory),
FM_TASK_TOKEN, GOTMPDIR; FM_TASK_PARENT inside another task; TMPDIR when pinned,
and the variables that config/tmpdir-vars names.
Exit status: the command's own; 125 task-spawn failed before it started;
126 the command cannot be run; 127 it was not found.
`;

const OPTIONS = {
  rm: { type: 'boolean' },
  env: { type: 'boolean' },
  pid: { type: 'string' },
  json: { type: 'boolean' },
  home: { type: 'string' },
  base: { type: 'string' },
  pin: { type: 'boolean' },
  'no-pin': { type: 'boolean' },
  'no-hold': { type: 'boolean' },
  set: { type: 'string', multiple: true },
  'lock-wait': { type: 'string' },
  // The parent of a --rm launch names its launch so; not for people.
  'spawn-gen': { type: 'string' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

type Values = ReturnType<typeof parseOptions<typeof OPTIONS>>['values'];

export interface SpawnLine {
  readonly mode: 'help' | 'version' | 'set' | 'env' | 'launch' | 'rm';
  readonly values: Values;
  /** Empty only in the modes help and version, and in rm when it was left out. */
  readonly id: string;
  /** Everything before the "--". */
  readonly options: readonly string[];
  /** The command and its arguments. */
  readonly command: readonly string[];
}

/** @throws TaskError USAGE with where the right word belongs */
export function parseSpawnLine(given: readonly string[]): SpawnLine {
  const mark = given.indexOf('--');
  const options = mark < 0 ? given : given.slice(0, mark);
  const command = mark < 0 ? [] : given.slice(mark + 1);
  const { values, positionals } = parseOptions(options, OPTIONS);
  const line = { values, id: positionals[0] ?? '', options, command };
  if (values.help) return { ...line, mode: 'help' };
  if (values.version) return { ...line, mode: 'version' };
  assertAgreement(values);
  assertPositionals(positionals, mark >= 0);
  if (values.env) {
    if (mark >= 0) throw usage('--env starts no command: leave out what stands from "--" on');
    return { ...line, mode: 'env' };
  }
  if (mark >= 0 && command.length === 0) throw usage(`no command after "--": task-spawn ${line.id} -- <command>`);
  if (mark >= 0) return { ...line, mode: values.rm || line.id === '' ? 'rm' : 'launch' };
  if (!values.set) throw usage(`no command: task-spawn ${line.id} -- <command> (see --help)`);
  if (values.rm) throw usage('--rm needs a command');
  return { ...line, mode: 'set' };
}

function usage(message: string): TaskError {
  return new TaskError('USAGE', message);
}

function assertAgreement(values: Values): void {
  if (values.pin && values['no-pin']) throw usage('--pin and --no-pin contradict each other: give one');
  if (values.env && values.rm) throw usage('--env and --rm contradict each other: give one');
  if (values.pid !== undefined && !values.env) throw usage('--pid goes with --env');
  const gen = values['spawn-gen'];
  if (gen !== undefined && !/^[0-9a-f]{32}$/.test(gen)) throw usage('--spawn-gen is 32 hex digits');
  if (values.json && !values.env) throw usage('--json goes with --env');
  if (values.pid !== undefined && !/^[1-9]\d{0,9}$/.test(values.pid))
    throw usage(`--pid ${values.pid} is not a process id`);
}

function assertPositionals([id, ...rest]: readonly string[], hasCommand: boolean): void {
  if (id === undefined) {
    if (hasCommand) return;
    throw usage('no id: task-spawn <id> -- <command> (see --help)');
  }
  if (rest.length > 0 && hasCommand)
    throw usage(`one id, please: ${JSON.stringify(rest[0])} stands between the id and "--"`);
  if (rest.length > 0) throw usage(`put "--" before the command: task-spawn ${id} -- ${rest.join(' ')}`);
  assertTaskId(id);
}
