/** Narrow pins: `config/tmpdir-vars` names variables, one a line, that are set to the root as TMPDIR is by the pin. */
import { readConfigList } from './config-list.ts';
import { messageOf, TaskError } from './errors.ts';
import { configFile, type Home } from './home.ts';

/** Names that mean something else to us, to every program, or to a shell, which may refuse to set them. */
const TAKEN =
  /^(FM_.*|GOTMPDIR|PATH|HOME|PWD|OLDPWD|SHLVL|IFS|_|ENV|PS[0-4]|PPID|E?UID|GROUPS|OPT(IND|ARG|ERR)|LINENO|RANDOM|SECONDS|SHELLOPTS|BASH.*|ts__.*|LD_.*|NODE_.*)$/;

/** The names, in their order; blank lines and lines that begin with "#" say nothing. @throws TaskError CONFIG */
export function readNarrowPins(home: Home): string[] {
  const path = configFile(home, 'tmpdir-vars');
  let names: string[];
  try {
    names = readConfigList(path);
  } catch (error) {
    throw new TaskError('CONFIG', `${path} cannot be read: ${messageOf(error)}`);
  }
  return names.map((name) => {
    if (/^[A-Za-z_][A-Za-z0-9_]*$/.test(name) && !TAKEN.test(name)) return name;
    throw new TaskError('CONFIG', `${path}: ${JSON.stringify(name)} is not a variable that can be set: mend that line`);
  });
}
