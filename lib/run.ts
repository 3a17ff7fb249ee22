/**
 * A launch with a parent: starts the ordinary prefix as a child, waits, and tears down that launch and no other, by the
 * spawn_gen that it chose. Behind --rm and the library's spawnTask: there is one launch path.
 */
import { messageOf, TaskError } from './errors.ts';
import type { TeardownResult } from './teardown.ts';

export interface Run {
  /** bin/task-spawn. */
  readonly shim: string;
  /** Options and id of the prefix; `spawnGen` is added. */
  readonly options: readonly string[];
  readonly command: readonly string[];
  readonly spawnGen: string;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly cwd?: string | undefined;
  readonly stdio: 'inherit' | 'ignore';
  /** Called with the child's pid, which is the command's, once it is started. */
  readonly onStart?: (pid: number) => void;
  readonly teardown: () => Promise<TeardownResult>;
}

/** How a run ended: a status or a signal, and what became of the task. */
export interface RunResult {
  /** Also 125 to 127 when the command was not started. */
  readonly exitCode: number | undefined;
  readonly signal: NodeJS.Signals | undefined;
  /** The teardown's result, or why the task was kept. */
  readonly teardown: TeardownResult | TaskError;
}

/** @throws TaskError IO when the shim itself cannot be started */
export async function runTask(run: Run): Promise<RunResult> {
  const { shim, options, command, spawnGen, cwd, stdio } = run;
  // Loaded when a child is to be started, not with the library.
  const { execa } = await import('execa');
  const env = Object.fromEntries(Object.entries(run.env).filter(([, value]) => value !== undefined));
  const child = execa(shim, ['--spawn-gen', spawnGen, ...options, '--', ...command], {
    env: env as Record<string, string>,
    ...(cwd === undefined ? {} : { cwd }),
    stdio,
    extendEnv: false,
    reject: false,
    // The child gets every signal from the terminal, or from us, and ends in its own time.
    cleanup: false,
    forceKillAfterDelay: false,
  });
  if (child.pid !== undefined) run.onStart?.(child.pid);
  const { exitCode, signal, code, shortMessage } = await child;
  if (exitCode === undefined && signal === undefined) {
    throw new TaskError('IO', `cannot start ${shim} (${code}): ${shortMessage}`);
  }
  return { exitCode, signal: signal as NodeJS.Signals | undefined, teardown: await settle(run.teardown) };
}

async function settle(teardown: () => Promise<TeardownResult>): Promise<TeardownResult | TaskError> {
  try {
    return await teardown();
  } catch (error) {
    return error instanceof TaskError ? error : new TaskError('IO', messageOf(error), { cause: error });
  }
}
