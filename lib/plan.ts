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
  /** The command's name as it was given. */
  readonly command: string;
  /** The file that it names. */
  readonly file: string;
  /** Exported to the command. */
  readonly exports: ReadonlyMap<string, string>;
  readonly repair: Repair;
}

/** The plan that launches the command. */
export function formatLaunch(plan: LaunchPlan): string {
  const exports = [...plan.exports].map(([name, value]) => `export ${name}=${quote(value)}`);
  return seal([...exports, `shift ${plan.shift}`, ...formatPrefix(plan)]);
}

/** The plan that prints a text on standard output and ends with status 0. */
export function formatPrint(text: string): string {
  return seal([...(text === '' ? [] : [`printf '%s' ${quote(text)}`]), 'exit 0']);
}

function seal(lines: readonly string[]): string {
  return `${[...lines, END_MARK].join('\n')}\n`;
}

/**
 * Goes through env(1) where the shell's own exec would not be exact: an environment to put right; a name that begins
 * with "-"; a relative file, which bash hands on as an absolute one. env(1) takes a command with a "=" in its name for
 * an assignment: nice(1) with no change stands between.
 */
function formatPrefix({ command, file, repair }: LaunchPlan): string[] {
  const wrong = repair.unset.length > 0 || repair.set.length > 0;
  if (!wrong && !command.startsWith('-') && file.startsWith('/')) return [];
  const unset = repair.unset.flatMap((name) => ['-u', name]);
  const guard = command.includes('=') ? ['nice', '-n', '0', '--'] : [];
  const words = ['/usr/bin/env', ...unset, '--', ...repair.set, ...guard].map(quote).join(' ');
  return [`set -- ${words} "$@"`];
}
