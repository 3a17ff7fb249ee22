/** Reading command lines: a thin layer over parseArgs that answers in one line. */
import { type ParseArgsConfig, parseArgs } from 'node:util';
import { messageOf, TaskError } from '../errors.ts';
import { LOCK_WAIT } from '../lock.ts';

type Options = NonNullable<ParseArgsConfig['options']>;

/** Options and positionals. @throws TaskError USAGE */
export function parseOptions<T extends Options>(args: readonly string[], options: T) {
  try {
    return parseArgs({ args: [...args], options, allowPositionals: true, strict: true });
  } catch (error) {
    // Node's text goes on with advice for its own conventions: the first sentence is what is wrong.
    throw new TaskError('USAGE', `${messageOf(error).replace(/\. .*/, '')}: see --help`);
  }
}

const UNITS: Record<string, number> = { '': 1, s: 1, m: 60, h: 3600, d: 86_400 };

/** A duration such as 10s, 5m, 24h; a bare number is seconds. In milliseconds. @throws TaskError USAGE */
export function parseDuration(option: string, text: string): number {
  const [, number, unit] = /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(text) ?? [];
  if (number === undefined)
    throw new TaskError('USAGE', `--${option} ${JSON.stringify(text)} is not a duration such as 10s, 5m or 24h`);
  return Number(number) * (UNITS[unit ?? ''] as number) * 1000;
}

export function lockWait(text: string | undefined): number {
  return text === undefined ? LOCK_WAIT : parseDuration('lock-wait', text);
}
