/** The parent that --rm puts around the prefix: waits for the command, tears the task down, ends as the command ended. */
import { constants } from 'node:os';
import { TaskError } from '../errors.ts';
import { Forwarder } from '../forward.ts';
import { teardownTask } from '../library.ts';
import { report } from '../main.ts';
import type { ProcessReport } from '../reap-report.ts';
import { runTask } from '../run.ts';
import { BLANKED } from './blanked.ts';
import { lockWait } from './options.ts';
import { formatProcesses } from './processes.ts';
import { parseSpawnLine } from './spawn-line.ts';

/** `args` is what the plan passes: shim, id, spawn_gen, the blanked variables, then options and command. */
export async function main(args: readonly string[]): Promise<number> {
  const [shim = '', id = '', spawnGen = '', ...rest] = args;
  const restored = rest.slice(0, BLANKED.length).filter(Boolean);
  const line = parseSpawnLine(rest.slice(BLANKED.length));
  const env = { ...process.env, ...Object.fromEntries(restored.map(splitEntry)) };
  const home = line.values.home === undefined ? {} : { home: line.values.home };
  const processes: ProcessReport[] = [];
  const forwarder = new Forwarder();
  forwarder.listen();
  const { exitCode, signal, teardown } = await runTask({
    shim,
    options: line.options,
    command: line.command,
    spawnGen,
    env,
    stdio: 'inherit',
    onStart: forwarder.start,
    teardown: () => {
      const lockWaitMs = lockWait(line.values['lock-wait']);
      const onProcess = (each: ProcessReport) => processes.push(each);
      return teardownTask(id, { ...home, env, spawnGen, lockWaitMs, signal: forwarder.end(), onProcess });
    },
  });
  // What was ended is what was asked for; what lives on is to be known.
  const living = processes.filter(({ action }) => action === 'spared' || action === 'survived');
  for (const line of formatProcesses(living)) report('task-spawn', line);
  if (teardown instanceof TaskError) report('task-spawn', teardown.message);
  else if (teardown.is === 'leftover')
    report('task-spawn', `kept ${teardown.root}: ${teardown.reason}; see task-status`);
  forwarder.unlisten();
  const last = forwarder.stoppedBy ?? signal;
  return last === undefined ? (exitCode as number) : endBy(last);
}

function splitEntry(entry: string): [string, string] {
  const at = entry.indexOf('=');
  return [entry.slice(0, at), entry.slice(at + 1)];
}

/** Ends this process by the child's signal; where Node cannot die of it (SIGPIPE, SIGUSR1), with the status a shell gives it. */
function endBy(signal: NodeJS.Signals): number {
  const number = constants.signals[signal];
  // Node ignores SIGPIPE, and SIGUSR1 starts its inspector; a core dump was the child's own.
  const mute = [
    'SIGPIPE',
    'SIGUSR1',
    'SIGQUIT',
    'SIGABRT',
    'SIGSEGV',
    'SIGBUS',
    'SIGFPE',
    'SIGILL',
    'SIGTRAP',
    'SIGSYS',
  ];
  if (!mute.includes(signal)) process.kill(process.pid, signal);
  return 128 + number;
}
