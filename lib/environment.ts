/** What a task's environment has more than its caller's, and what it must not have (design section 6). */
import { gotmpOf } from './paths.ts';
import type { Prepared } from './spawn.ts';

export interface TaskEnvironment {
  readonly set: ReadonlyMap<string, string>;
  readonly unset: readonly string[];
}

/** `outer` is the FM_TASK_TOKEN of the caller: with it this task is nested in another. */
export function taskEnvironment({ home, record, narrowPins }: Prepared, outer: string | undefined): TaskEnvironment {
  const root = record.tasktmp;
  const nested = outer !== undefined && /^[0-9a-f]{32}$/.test(outer);
  const pins = record.tmpdir_pin === '1' ? ['TMPDIR', ...narrowPins] : narrowPins;
  const set = new Map([
    ['FM_HOME', home.path],
    ['FM_TASK_ID', record.id],
    ['FM_TASK_TMP', root],
    ['FM_TASK_TOKEN', record.token],
    ['GOTMPDIR', gotmpOf(root)],
    ...pins.map((name): [string, string] => [name, root]),
  ]);
  if (nested) set.set('FM_TASK_PARENT', outer);
  // A parent's token that came from further out would tie this task to one it does not run in.
  return { set, unset: nested ? [] : ['FM_TASK_PARENT'] };
}
