/** task-spawn: options -> operation -> the sh plan on standard output, which the shim evaluates. */
import { ignoredSignals, rawArguments, rawEnvironments, rawVariable, toLatin1 } from '../caller.ts';
import { findCommand } from '../command.ts';
import { taskEnvironment } from '../environment.ts';
import { errnoOf, messageOf, TaskError } from '../errors.ts';
import { findFreeDescriptor } from '../hold.ts';
import type { SpawnContext, SpawnRequest } from '../launch.ts';
import { readMachine } from '../machine.ts';
import { describeError, report, statusOf } from '../main.ts';
import { isTerminal, writeText } from '../output.ts';
import { type Environment, locateBase, locateHome } from '../paths.ts';
import { formatExports, formatLaunch, formatPrint, type LaunchPlan } from '../plan.ts';
import { type ProcessInfo, readProcess, requireProcess } from '../processes.ts';
import { parseSetting } from '../record.ts';
import { compareEnvironments, type Repair } from '../restore.ts';
import { type Prepared, prepareTask } from '../spawn.ts';
import { AbortTrap } from '../trap.ts';
import { BLANKED } from './blanked.ts';
import { lockWait } from './options.ts';
import { parseSpawnLine, type SpawnLine } from './spawn-line.ts';

/** `args` is what the shim passes: its own path and pid, then its arguments. Gives the exit status; a plan only with 0. */
export async function main(args: readonly string[]): Promise<number> {
  const [shim = '', shell, ...given] = args;
  const call = { shim, shell: Number(shell), given, env: process.env };
  const plan = await makePlan(call).catch((error: unknown) => planRefusal(call, error));
  writeText(1, Buffer.from(plan, 'latin1'));
  return 0;
}

/** A refusal of --env is printed too, so that the caller's eval fails with it; any other is an error and no plan. */
function planRefusal({ given }: Call, error: unknown): string {
  const options = given.slice(0, given.includes('--') ? given.indexOf('--') : undefined);
  if (!options.includes('--env')) throw error;
  const message = describeError(error);
  const code = error instanceof TaskError ? error.code : errnoOf(error) === undefined ? 'BUG' : 'IO';
  report('task-spawn', message);
  const text = options.includes('--json') ? formatJson({ error: { code, message } }) : 'false\n';
  return formatPrint(toLatin1(text), statusOf('task-spawn', error));
}

export interface Call {
  readonly shim: string;
  readonly shell: number;
  readonly given: readonly string[];
  readonly env: Environment;
}

async function makePlan(call: Call): Promise<string> {
  const line = parseSpawnLine(call.given);
  switch (line.mode) {
    case 'help':
      return formatPrint((await import('./spawn-help.ts')).HELP);
    case 'version':
      return formatPrint(`${(await import('./spawn-help.ts')).VERSION}\n`);
    case 'rm':
      return (await import('./spawn-parent.ts')).planParent(call, line);
    case 'env':
      return planExports(call, line);
    case 'launch':
      return planLaunch(call, line);
    case 'set': {
      const { context } = listen(call);
      const { setKeys } = await import('../set-keys.ts');
      await setKeys(context, { ...readSettings(call, line), id: line.id });
      return formatPrint('');
    }
  }
}

/** Listens for signals before anything is made. @throws TaskError ABORTED without the shell that called. */
function listen({ shell }: Call): { readonly context: SpawnContext; readonly spawner: ProcessInfo } {
  const spawner = readProcess(shell);
  if (typeof spawner === 'string' || process.ppid !== shell) {
    throw new TaskError(
      'ABORTED',
      'the launching shell cannot be found: call task-spawn through its command, not its parts',
    );
  }
  const trap = new AbortTrap(() => process.ppid !== shell, ignoredSignals(shell));
  trap.listen();
  return { context: { trap, here: readMachine(), uid: process.geteuid?.() ?? 0, now: () => new Date() }, spawner };
}

function readSettings({ env }: Call, { values }: SpawnLine) {
  return {
    home: locateHome(values.home, env),
    settings: (values.set ?? []).map(parseSetting),
    lockWaitMs: lockWait(values['lock-wait']),
  };
}

function readRequest(call: Call, line: SpawnLine): Omit<SpawnRequest, 'command' | 'spawner' | 'launcher'> {
  const { values, id } = line;
  const { pin, base, 'no-pin': noPin, 'spawn-gen': spawnGen } = values;
  return {
    ...readSettings(call, line),
    id,
    base: { ...locateBase(base, call.env), explicit: base !== undefined },
    pin: pin ? true : noPin ? false : undefined,
    ...(spawnGen === undefined ? {} : { spawnGen }),
  };
}

/** The prefix itself: the shell becomes the command. */
async function planLaunch(call: Call, line: SpawnLine): Promise<string> {
  const { context, spawner } = listen(call);
  const request = readRequest(call, line);
  const command = rawArguments(line.command.length)[0] ?? toLatin1(line.command[0] as string);
  const path = rawVariable('PATH');
  const { file } = findCommand(command, path);
  const prepared = await prepareTask(context, {
    ...request,
    spawner,
    launcher: spawner,
    command: line.command[0] as string,
  });
  await notify(context, prepared);
  const { set, unset } = taskEnvironment(prepared, call.env.FM_TASK_TOKEN);
  const plan = formatLaunch({
    shift: line.options.length + 1,
    command,
    file,
    set: toLatin1Map(set),
    unset,
    repair: repairFor(call.shell, [...set.keys(), ...unset]),
    hold: line.values['no-hold'] ? undefined : planHold(call.shell, prepared.record.tasktmp, path),
  });
  await letGo(context);
  return plan;
}

/** --env: no command; the caller's shell evaluates what is printed. */
async function planExports(call: Call, line: SpawnLine): Promise<string> {
  const { json, pid } = line.values;
  const { context, spawner } = listen(call);
  const launcher = pid === undefined ? undefined : requireProcess(Number(pid));
  const prepared = await prepareTask(context, { ...readRequest(call, line), spawner, launcher, command: '' });
  const { set, unset } = taskEnvironment(prepared, call.env.FM_TASK_TOKEN);
  const { id, tasktmp: root } = prepared.record;
  const text = json
    ? formatJson({ id, root, relaunched: prepared.relaunched, env: Object.fromEntries(set), unset })
    : `${formatExports(set, unset).join('\n')}\n`;
  await letGo(context).catch((error: unknown) => {
    throw new TaskError('ABORTED', `${messageOf(error)}; the task is on record: task-teardown ${id}`);
  });
  return formatPrint(toLatin1(text));
}

/** The documented object (docs/json.md). */
function formatJson(value: object): string {
  return `${JSON.stringify({ version: 1, ...value }, null, 2)}\n`;
}

/** What the shell itself changed in the environment, apart from what was cleared and `names`. */
export function repairFor(shell: number, names: readonly string[]): Repair {
  return compareEnvironments(rawEnvironments(shell), new Set([...BLANKED, ...names]));
}

/** The hold on the root, where flock(1) and a descriptor are to be had. */
function planHold(shell: number, root: string, path: string | undefined): LaunchPlan['hold'] {
  const fd = findFreeDescriptor(shell);
  if (fd === undefined) return undefined;
  try {
    // Where it usually is first: PATH may be long.
    const { file } = findCommand('flock', `/usr/bin:/bin:${path ?? ''}`);
    return { root: toLatin1(root), fd, flock: file };
  } catch {
    return undefined;
  }
}

function toLatin1Map(map: ReadonlyMap<string, string>): Map<string, string> {
  return new Map([...map].map(([name, value]) => [name, toLatin1(value)]));
}

/** From here on nothing is taken back: a signal now leaves a dead task on record. */
async function letGo({ trap }: SpawnContext): Promise<void> {
  await trap.beat();
  trap.unlisten();
}

/** On a terminal: what a person would want to know before the command takes it over. */
async function notify(context: SpawnContext, { home, record, relaunched }: Prepared): Promise<void> {
  if (!isTerminal(2)) return;
  if (relaunched) report('task-spawn', `${record.id}: relaunched; its directory is kept since ${record.created_at}`);
  const { countFinished } = await import('../status.ts');
  const finished = countFinished(home, context.here);
  if (finished === 0) return;
  report(
    'task-spawn',
    `${finished} finished ${finished === 1 ? 'task waits' : 'tasks wait'} for task-teardown: see task-status`,
  );
}
