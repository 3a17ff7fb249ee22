/** The plan of --rm: the shell becomes a parent of the ordinary prefix, which waits and tears down (cli/rm.ts). */
import { isUtf8 } from 'node:buffer';
import { dirname, join } from 'node:path';
import { rawArguments, rawEnvironments, toLatin1 } from '../caller.ts';
import { TaskError } from '../errors.ts';
import { realpathSync } from '../fs.ts';
import { report } from '../main.ts';
import { nameTask } from '../name.ts';
import { formatParent } from '../plan.ts';
import { randomHex } from '../random.ts';
import { compareEnvironments } from '../restore.ts';
import { BLANKED } from './blanked.ts';
import type { Call } from './spawn.ts';
import type { SpawnLine } from './spawn-line.ts';

/** @throws TaskError USAGE for what Node could not pass on byte for byte. */
export function planParent(call: Call, line: SpawnLine): string {
  const raw = rawArguments(line.command.length);
  const { given } = rawEnvironments(call.shell) ?? { given: [] };
  if (![...raw, ...given].every((text) => isUtf8(Buffer.from(text, 'latin1')))) {
    throw new TaskError('USAGE', '--rm cannot pass on arguments or variables that are not valid UTF-8: leave --rm out');
  }
  const id = line.id || nameTask(line.command[0] as string);
  if (line.id === '') report('task-spawn', `the task is ${id}`);
  const options = [...line.options.filter((word) => word !== '--rm'), ...(line.id === '' ? [id] : [])];
  const shim = realpathSync(call.shim);
  return formatParent({
    shift: line.options.length + 1,
    words: [process.execPath, join(dirname(shim), '../dist/task-spawn-rm.cjs'), shim, id, randomHex(16)].map(toLatin1),
    carried: BLANKED,
    options: options.map(toLatin1),
    repair: compareEnvironments(rawEnvironments(call.shell), new Set(BLANKED)),
  });
}
