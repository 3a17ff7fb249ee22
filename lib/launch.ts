/** A launch: what is asked for, what it may use, and the keys of the record that belong to it and not to the task. */
import type { Machine } from './machine.ts';
import type { BaseSetting, HomeSetting } from './paths.ts';
import type { ProcessInfo } from './processes.ts';
import { randomHex } from './random.ts';
import type { Entry, TaskRecord } from './record.ts';
import type { AbortTrap } from './trap.ts';

export interface SpawnRequest {
  readonly id: string;
  readonly home: HomeSetting;
  /** Where a fresh root goes. `explicit` when the caller insists on it: then a relaunch must be there too. */
  readonly base: BaseSetting & { readonly explicit: boolean };
  /** --pin or --no-pin; undefined leaves it to the flag. */
  readonly pin: boolean | undefined;
  readonly settings: readonly Entry[];
  /** How long a busy lock is waited for, in milliseconds. */
  readonly lockWaitMs: number;
  /** argv[0] of the command, for the record; empty for a task whose process was given, or that has none. */
  readonly command: string;
  /** The process that plans the launch, or that will become the command. */
  readonly spawner: ProcessInfo;
  /** The process that is, or will be, the command; undefined for a task that is held. */
  readonly launcher: ProcessInfo | undefined;
  /** Chosen by the parent of a --rm launch, so that it can tell this launch from any other. */
  readonly spawnGen?: string;
}

export interface SpawnContext {
  readonly trap: AbortTrap;
  readonly here: Machine;
  readonly uid: number;
  readonly now: () => Date;
}

/** What belongs to the launch and not to the task: new each time. */
export interface Launch {
  /** Of the process that is at work now, and of the one that will be the task. */
  readonly spawner: Pick<TaskRecord, 'pid' | 'pid_start' | 'tty_nr'>;
  readonly keys: Pick<
    TaskRecord,
    'state' | 'spawn_gen' | 'tmpdir_pin' | 'host' | 'boot_id' | 'pid_ns' | 'pid' | 'pid_start' | 'tty_nr' | 'command'
  >;
  /** Whether any variable sends other programs' temporary files into the root. */
  readonly pinned: boolean;
}

export function describeLaunch({ here }: SpawnContext, request: SpawnRequest, pin: boolean, pinned: boolean): Launch {
  const { launcher, spawner, command, spawnGen } = request;
  const keys = {
    state: launcher ? ('active' as const) : ('held' as const),
    spawn_gen: spawnGen ?? randomHex(16),
    tmpdir_pin: pin ? '1' : '0',
    ...here,
    ...processKeys(launcher),
    command: JSON.stringify(command),
  };
  return { spawner: processKeys(spawner), keys, pinned };
}

/** The keys that name a process; all empty for none. */
export function processKeys(process: ProcessInfo | undefined) {
  return { pid: String(process?.pid ?? ''), pid_start: process?.start ?? '', tty_nr: process?.tty ?? '' };
}
