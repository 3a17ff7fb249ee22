/**
 * removeTree in a process of its own: as another user, in another mount namespace, or to measure its memory. This file is
 * its own entry point, bundled by bundleWalk; a job comes as JSON in the first argument, the outcome goes out as JSON.
 */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { join } from 'node:path';
import { removeTree } from '../../lib/remove.ts';
import { goToDescriptors } from '../../lib/walk-folder.ts';

export interface WalkJob {
  /** Walked one after the other. */
  readonly roots: readonly string[];
  /** Instead of what stands there: the directory whose identity is taken for the roots'. */
  readonly identityOf?: string;
  /** Before the walk's so-many-th entry, or right after an rmdir of `below` that found it not empty: run a command. */
  readonly meanwhile?: {
    readonly at: number | 'not-empty';
    readonly below: string;
    readonly command: readonly string[];
  };
  /** How long each entry of the first walker takes, in milliseconds, so that others of a crew, started at once, do the most. */
  readonly pause?: number;
  /** By names in the working directory, as task-teardown goes. */
  readonly relative?: boolean;
  /** Instead: so many walks of a tree, small unless `folders` says more, that is made anew at the first root each time. */
  readonly again?: { readonly times: number; readonly link: string; readonly folders?: number };
}

export interface WalkOutcome {
  readonly removals: { entries: number; keptCount: number; kept: { path: string; reason: string }[]; gone: boolean }[];
  readonly errors: string[];
  /** Entries that the first walker did not remove itself. */
  shared: number;
  /** The peak resident set in KiB. */
  readonly peak: number;
}

async function walkAll(job: WalkJob): Promise<WalkOutcome> {
  const outcome: WalkOutcome = { removals: [], errors: [], shared: 0, peak: 0 };
  const { meanwhile, again, pause } = job;
  const prefix = job.relative ? goToDescriptors() : undefined;
  if (meanwhile?.at === 'not-empty') interfere(meanwhile.below, meanwhile.command);
  const roots = again ? Array.from({ length: again.times }, () => job.roots[0] as string) : job.roots;
  for (const root of roots) {
    if (again) makeSmall(root, again.link, again.folders ?? 2);
    let steps = 0;
    const stop = () => {
      if (++steps === meanwhile?.at) run(meanwhile.command);
      if (pause) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pause);
      return false;
    };
    const { dev, ino, birthtimeNs } = fs.lstatSync(job.identityOf ?? root, { bigint: true });
    const identity = { tmp_dev: String(dev), tmp_ino: String(ino), tmp_btime: String(birthtimeNs) };
    try {
      const options = { uid: process.geteuid?.() ?? 0, stop, prefix, ...(pause ? { crewFrom: 0 } : {}) };
      const { entries: removed, keptCount, kept } = await removeTree(root, identity, options);
      outcome.shared += Math.max(0, removed - steps);
      outcome.removals.push({ entries: removed, keptCount, kept: [...kept], gone: !isThere(root) });
    } catch (error) {
      outcome.errors.push(String(error));
    }
    if (again) fs.rmSync(root, { recursive: true, force: true, maxRetries: 20 });
  }
  return { ...outcome, peak: process.resourceUsage().maxRSS };
}

function isThere(path: string): boolean {
  return fs.lstatSync(path, { throwIfNoEntry: false }) !== undefined;
}

function run(command: readonly string[]): void {
  execFileSync(command[0] as string, command.slice(1));
}

function interfere(below: string, command: readonly string[]): void {
  const real = fs.rmdirSync;
  let isDone = false;
  fs.rmdirSync = ((path: Buffer | string) => {
    try {
      real(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOTEMPTY' && String(path).endsWith(`/${below}`) && !isDone) {
        isDone = true;
        run(command);
      }
      throw error;
    }
  }) as typeof fs.rmdirSync;
}

/** Folders of one name each with a link of another, for somebody who exchanges them meanwhile. */
function makeSmall(root: string, link: string, folders: number): void {
  fs.mkdirSync(root);
  for (let index = 0; index < folders; index++) {
    fs.mkdirSync(join(root, `d${index}`, 'sub'), { recursive: true });
    for (const name of ['a', 'sub/b', 'file']) fs.writeFileSync(join(root, `d${index}`, name), '');
    fs.symlinkSync(link, join(root, `l${index}`));
  }
}

if (process.argv[2]?.startsWith('{')) {
  walkAll(JSON.parse(process.argv[2])).then((outcome) => process.stdout.write(JSON.stringify(outcome)));
}
