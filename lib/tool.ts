/** Asking a tool of the system, where there is no /proc (macOS). Loaded when it is needed: node:child_process is slow to load. */
import { lazyRequire } from './lazy.ts';

/** How long a tool may take, in milliseconds. */
const LIMIT = 5000;

/** What it prints, as latin1 text, in a locale and time zone of their own. @throws Error when it is missing or fails */
export function runTool(file: string, args: readonly string[]): string {
  const { execFileSync } = lazyRequire('node:child_process') as typeof import('node:child_process');
  return execFileSync(file, args, { encoding: 'latin1', env: { LC_ALL: 'C', TZ: 'UTC' }, timeout: LIMIT });
}
