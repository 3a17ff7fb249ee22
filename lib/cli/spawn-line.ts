/** The command line of task-spawn: its options, its shapes, and what is wrong with any other. */
import { TaskError } from '../errors.ts';
import { assertTaskId, isTaskId } from '../paths.ts';
import { parseOptions } from './options.ts';

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
  // An id alone, the usual line, needs no parser: parseArgs costs each launch a millisecond.
  const plain = options.length === 1 && isTaskId(options[0] as string);
  const { values, positionals } = plain ? { values: {}, positionals: options } : parseOptions(options, OPTIONS);
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
