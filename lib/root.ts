/** Proving a task's root: known by its identity, looked at again before anything is done to it (design section 3). */
import { messageOf, unlessMissing } from './errors.ts';
import { rmdirSync } from './fs.ts';
import type { Home } from './home.ts';
import { type BigStat, type Identity, identityOf, lookAt } from './identity.ts';
import { describeKind } from './kind.ts';
import { comparePlace, type Machine } from './machine.ts';
import { deriveRoot, gotmpOf } from './paths.ts';
import { isBorn, type TaskRecord } from './record.ts';
import type { Birth } from './record-file.ts';

/** What was found under a record's tasktmp. */
export type RootFinding =
  | { readonly is: 'absent' }
  /** Proven to be this task's own. */
  | { readonly is: 'own'; readonly identity: Identity }
  /** Made by a launch that died before it could write its identity down: may be taken away by rmdir and nothing more. */
  | { readonly is: 'unborn' }
  /** Not proven to be this task's own: untouched. */
  | { readonly is: 'foreign'; readonly reason: string }
  /** The base is not the one of the record: nothing is known of the root. */
  | { readonly is: 'elsewhere'; readonly reason: string }
  /** It cannot be looked at. */
  | { readonly is: 'uncertain'; readonly reason: string };

/** Looks at the root of a record and proves what it is; changes nothing. */
export function inspectRoot(home: Home, record: TaskRecord, birth: Birth, here: Machine): RootFinding {
  const { base, tasktmp, id } = record;
  if (tasktmp !== deriveRoot(base, home.tag, id)) {
    return { is: 'foreign', reason: `it is not this task's own path (that is ${deriveRoot(base, home.tag, id)})` };
  }
  const sameBoot = comparePlace(record, here) === 'here';
  try {
    const folder = unlessMissing(() => lookAt(base));
    if (!folder) return { is: 'elsewhere', reason: `the base ${base} does not exist now` };
    if (
      !folder.isDirectory() ||
      String(folder.ino) !== record.base_ino ||
      (sameBoot && String(folder.dev) !== record.base_dev)
    ) {
      return {
        is: 'elsewhere',
        reason: `the base ${base} is not the one the task was made in (another mount or container?)`,
      };
    }
    const stat = unlessMissing(() => lookAt(tasktmp));
    if (!stat) return { is: 'absent' };
    if (!stat.isDirectory())
      return { is: 'foreign', reason: `it is ${describeKind(stat)}, not this task's own directory` };
    if (Number(stat.uid) !== home.uid)
      return { is: 'foreign', reason: `it belongs to uid ${stat.uid}, so it is not this task's own` };
    return isBorn(record) ? proveOwn(stat, record, sameBoot) : proveUnborn(stat, birth);
  } catch (error) {
    return { is: 'uncertain', reason: `it cannot be looked at: ${messageOf(error)}` };
  }
}

function proveOwn(stat: BigStat, record: TaskRecord, sameBoot: boolean): RootFinding {
  const found = identityOf(stat);
  const other = { is: 'foreign', reason: "another directory took its place, so it is not this task's own" } as const;
  if (found.tmp_ino !== record.tmp_ino || found.tmp_btime !== record.tmp_btime) return other;
  if (sameBoot && found.tmp_dev !== record.tmp_dev) return other;
  if (found.tmp_btime === '0' && !sameBoot) {
    return {
      is: 'foreign',
      reason:
        "its file system keeps no birth time and the machine was restarted, so it cannot be proven this task's own",
    };
  }
  return { is: 'own', identity: found };
}

/** A directory without a recorded identity is ours only when it was born after the record that announced it. */
function proveUnborn(stat: BigStat, birth: Birth): RootFinding {
  const cannot = (why: string) => {
    const reason = `the launch died before this directory's identity was written, and it cannot be proven this task's own (${why}); rmdir it yourself if it is empty`;
    return { is: 'foreign', reason } as const;
  };
  if (stat.dev !== birth.dev) return cannot('it lies on another file system than the record');
  if (stat.birthtimeNs === 0n || birth.btime === 0n) return cannot('the file system keeps no birth time');
  if (stat.birthtimeNs < birth.btime) return cannot('it is older than the record');
  return { is: 'unborn' };
}

/** Takes away an unborn root: an empty gotmp and the empty root. @throws the errno of rmdir when anything else is in it. */
export function discardUnborn(root: string): void {
  unlessMissing(() => rmdirSync(gotmpOf(root)));
  unlessMissing(() => rmdirSync(root));
}
