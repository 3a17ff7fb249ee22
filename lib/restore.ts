/**
 * What the shell itself adds to, drops from or changes in the environment (PWD, SHLVL, names that are no identifiers:
 * every shell differs, launch-facts are in docs/launch.md), and the env(1) call that puts it right.
 */
import type { RawEnvironments } from './caller.ts';

export interface Repair {
  /** Names that the command must not see. */
  readonly unset: readonly string[];
  /** `NAME=value` entries it must see. */
  readonly set: readonly string[];
}

const NOTHING: Repair = { unset: [], set: [] };

/**
 * Compares what the caller gave with what the shell would pass to the command. `skipped` are names that
 * are not looked at: those the shim blanks for Node alone and those the plan sets. Of a name that stands twice the first
 * counts, as for getenv(3). Entries without "=" or without a name cannot be restored.
 */
export function compareEnvironments(raw: RawEnvironments | undefined, skipped: ReadonlySet<string>): Repair {
  if (!raw) return NOTHING;
  const given = byName(raw.given);
  const passed = byName(raw.passed);
  const unset = [...passed.keys()].filter((name) => !given.has(name) && !skipped.has(name));
  const set = [...given]
    .filter(([name, entry]) => passed.get(name) !== entry && !skipped.has(name))
    .map(([, entry]) => entry);
  return { unset, set };
}

function byName(entries: readonly string[]): Map<string, string> {
  const map = new Map<string, string>();
  for (const entry of entries) {
    const at = entry.indexOf('=');
    if (at > 0 && !map.has(entry.slice(0, at))) map.set(entry.slice(0, at), entry);
  }
  return map;
}
