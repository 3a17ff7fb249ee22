/**
 * The sh plan: what the shim evaluates before it becomes the command. Text here is latin1, one character for one byte.
 * The command's arguments are not in it: they stay in the shell's "$@".
 */
import type { Repair } from './restore.ts';

/** The shim evaluates nothing that does not end with this line. */
export const END_MARK = '# task-spawn: end of plan';

/** Quotes bytes for sh so that they are one word. */
export function quote(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

export interface LaunchPlan {
  /** How many of the shim's own arguments stand before the command, the "--" included. */
  readonly shift: number;
  /** Exported to the command. */
  readonly set: ReadonlyMap<string, string>;
  /** Taken out of its environment. */
  readonly unset: readonly string[];
  readonly repair: Repair;
  /** The command's name as it was given. */
  readonly command: string;
  /** The file that it names. */
  readonly file: string;
  /** The root, the descriptor on which the shell is to hold it, and flock(1). */
  readonly hold?: { readonly root: string; readonly fd: number; readonly flock: string } | undefined;
}

/** The plan that launches the command. */
export function formatLaunch({ shift, set, unset, repair, command, file, hold }: LaunchPlan): string {
  const lines = [...formatExports(set, unset), `shift ${shift}`, ...formatPrefix(command, file, repair)];
  // Where the shell or flock(1) cannot do it there is no hold; the shell must not end over it.
  if (hold) {
    const { root, fd, flock } = hold;
    lines.push(
      `{ command exec ${fd}<${quote(root)} && { ${quote(flock)} -s -n ${fd} || exec ${fd}<&-; }; } 2>/dev/null || :`,
    );
  }
  return seal(lines);
}

export interface ParentPlan {
  readonly shift: number;
  readonly repair: Repair;
  /** The program that is to be the command's parent, and its first arguments. */
  readonly words: readonly string[];
  /** Variables that are taken out of the parent's environment and handed to it as NAME=value arguments, or as ''. */
  readonly carried: readonly string[];
  /** The arguments after those, before the command's. */
  readonly options: readonly string[];
}

/** The plan that makes the shell the parent of a launch (--rm). */
export function formatParent({ shift, repair, words, carried, options }: ParentPlan): string {
  const list = [
    ...words.map(quote),
    ...carried.map((name) => `"\${${name}+${name}=$${name}}"`),
    ...[...options, '--'].map(quote),
  ];
  const [file = ''] = words;
  return seal([
    `shift ${shift}`,
    `set -- ${list.join(' ')} "$@"`,
    ...formatExports(new Map(), carried),
    ...formatPrefix(file, file, repair),
  ]);
}

/** The plan that prints a text on standard output and ends with a status. */
export function formatPrint(text: string, status = 0): string {
  return seal([...(text === '' ? [] : [`printf '%s' ${quote(text)} || exit 125`]), `exit ${status}`]);
}

/** Assignments that a shell evaluates: the plan's own, and what --env prints. */
export function formatExports(set: ReadonlyMap<string, string>, unset: readonly string[]): string[] {
  return [
    ...(unset.length > 0 ? [`unset ${unset.join(' ')}`] : []),
    ...[...set].map(([name, value]) => `export ${name}=${quote(value)}`),
  ];
}

function seal(lines: readonly string[]): string {
  return `${[...lines, END_MARK].join('\n')}\n`;
}

/**
 * Goes through env(1) where the shell's own exec would not be exact: an environment to put right; a name that begins
 * with "-"; a relative file, which bash hands on as an absolute one. env(1) takes a command with a "=" in its name for
 * an assignment: nice(1) with no change stands between.
 */
function formatPrefix(command: string, file: string, repair: Repair): string[] {
  const wrong = repair.unset.length > 0 || repair.set.length > 0;
  if (!wrong && !command.startsWith('-') && file.startsWith('/')) return [];
  const unset = repair.unset.flatMap((name) => ['-u', name]);
  const guard = command.includes('=') ? ['nice', '-n', '0', '--'] : [];
  const words = ['/usr/bin/env', ...unset, '--', ...repair.set, ...guard].map(quote).join(' ');
  return [`set -- ${words} "$@"`];
}
