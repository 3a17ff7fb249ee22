/**
 * Who is ended, who is spared and why (design section 10): pure, from a table, a task and who we are to a judgement for
 * each process that anything ties to the task. Evidence ends a process only when no rule spares it; a process that is
 * tied by nothing has no judgement at all.
 */
import type { ProcessTable } from './process-table.ts';
import type { ProcessInfo } from './processes.ts';
import type { Candidate, Evidence, Judgement, ReapTarget, Self, Spare } from './reap-target.ts';
import {
  descendsFromLiving,
  isInner,
  isInPipeline,
  isLocation,
  isOlder,
  isServer,
  isSure,
  listDescendants,
  livingProcess,
  serverAbove,
} from './reap-ties.ts';

/** Ties processes to the task. */
export interface Finder {
  readonly name: string;
  readonly find: (table: ProcessTable, target: ReapTarget) => Iterable<readonly [pid: number, evidence: Evidence]>;
}

/** Spares a process that evidence speaks against. */
export interface Sparer {
  readonly name: string;
  readonly spare: (candidate: Candidate) => Spare | undefined;
}

export interface Rules {
  readonly finders: readonly Finder[];
  readonly sparers: readonly Sparer[];
}

const tie = (pids: Iterable<number>, evidence: Evidence) => [...pids].map((pid): [number, Evidence] => [pid, evidence]);

const FINDERS: readonly Finder[] = [
  {
    name: 'token',
    find: (table, { token }) =>
      tie(
        table.withToken(token).filter((pid) => table.tokensOf(pid)?.own.includes(token)),
        'token',
      ),
  },
  {
    name: 'parent',
    find: (table, { token }) =>
      tie(
        table.withToken(token).filter((pid) => table.tokensOf(pid)?.parent.includes(token)),
        'parent',
      ),
  },
  { name: 'hold', find: (table, { root }) => (root ? tie(table.holders(root), 'hold') : []) },
  { name: 'descendants', find: (table, target) => tie(listDescendants(table, target), 'descendant') },
  {
    name: 'session',
    find: (table, target) => {
      const leader = livingProcess(table, target);
      if (!leader || leader.session !== leader.pid) return [];
      return tie(
        [...table.pids()].filter((pid) => table.get(pid)?.session === leader.pid),
        'session',
      );
    },
  },
  {
    name: 'visitors',
    find: (table, { root, visitors }) => (root && visitors ? table.visitors(root.path) : []),
  },
];

const spare = (reason: string, remedy: string): Spare => ({ verdict: 'spare', reason, remedy });

const SPARERS: readonly Sparer[] = [
  {
    name: 'inner-task',
    spare: (candidate) => (isInner(candidate) ? { verdict: 'inner', reason: '', remedy: '' } : undefined),
  },
  {
    name: 'caller',
    spare: ({ process, self }) =>
      process.pid <= 1 || self.lineage.has(process.pid)
        ? spare('this command runs in it', 'it ends by itself, or end it yourself')
        : undefined,
  },
  {
    name: 'pipeline',
    spare: (candidate) =>
      isInPipeline(candidate) ? spare('it is in the pipeline of this command', 'it ends with the pipeline') : undefined,
  },
  {
    name: 'another-uid',
    spare: ({ process, table }) =>
      table.uidOf(process.pid) === table.uid
        ? undefined
        : spare('it is of another user', 'end it as that user if it is not needed'),
  },
  {
    name: 'another-task',
    spare: ({ process, table, target }) =>
      table.tokensOf(process.pid)?.own.some((token) => token !== target.token)
        ? spare("it carries another task's token", 'it goes with the teardown of that task')
        : undefined,
  },
  {
    name: 'another-terminal',
    spare: ({ process: { pid, tty }, table, target }) =>
      tty === '0' || tty === target.tty || descendsFromLiving(table, target, pid)
        ? undefined
        : spare('it has another terminal than the task', 'end it there if it is not needed'),
  },
  {
    name: 'shared-server',
    spare: (candidate) => {
      const server = serverAbove(candidate, candidate.process.pid);
      if (!server) return undefined;
      const own = server.pid === candidate.process.pid;
      const what = own ? `a shared server (${server.what})` : `in the shared server ${server.pid} (${server.what})`;
      return spare(what, 'end it yourself if nobody needs it');
    },
  },
  {
    name: 'younger-than-server',
    spare: (candidate) => {
      const { process, evidence, found, table } = candidate;
      if (evidence.some(isSure)) return undefined;
      const mayHaveStartedIt = (pid: number) =>
        pid !== process.pid &&
        found.get(pid)?.includes('token') &&
        isServer(candidate, pid) &&
        !isOlder(process, table.get(pid));
      const server = [...found.keys()].find(mayHaveStartedIt);
      if (server === undefined) return undefined;
      return spare(
        `the shared server ${server} has the task's token and may have started it`,
        'end it if nobody needs it',
      );
    },
  },
  {
    name: 'visitor',
    spare: (candidate) => {
      const { process, evidence, table, target } = candidate;
      if (!evidence.every(isLocation)) return undefined;
      if (target.visitors !== 'end') return spare('a visitor', 'end it, or use --reap-visitors');
      const why =
        process.tty !== '0'
          ? 'with a terminal'
          : !table.sharesMounts(process.pid)
            ? 'with other mounts'
            : target.since === undefined || !isOlder({ start: target.since }, process)
              ? 'that was not started after the task'
              : undefined;
      return why === undefined ? undefined : spare(`a visitor ${why}`, 'end it yourself if it is not needed');
    },
  },
];

/** All rules of section 10; a test takes each of them out and sees a verdict change. */
export const RULES: Rules = { finders: FINDERS, sparers: SPARERS };

/** The judgements on all processes that are tied to the task, by pid. Ourselves are none of them, nor is what is dead. */
export function judgeProcesses(
  table: ProcessTable,
  target: ReapTarget,
  self: Self,
  { finders, sparers }: Rules = RULES,
): Judgement[] {
  const found = new Map<number, Evidence[]>();
  for (const { find } of finders) {
    for (const [pid, evidence] of find(table, target)) {
      if (pid !== self.pid && table.get(pid)?.dead === false) found.set(pid, [...(found.get(pid) ?? []), evidence]);
    }
  }
  const judged = [...found].flatMap(([pid, all]): Judgement[] => {
    const process = table.get(pid) as ProcessInfo;
    // Where something else ties it, that it also stands in the root says nothing more.
    const other = all.filter((each) => !isLocation(each));
    const evidence = other.length > 0 ? other : all;
    const candidate = { process, evidence, found, table, target, self };
    const spared = firstOf(sparers, ({ spare }) => spare(candidate));
    if (spared?.verdict !== 'inner' && evidence.every((each) => each === 'parent')) return [];
    return [{ process, evidence, ...(spared ?? { verdict: 'end', reason: '', remedy: '' }) }];
  });
  return judged.sort((one, other) => one.process.pid - other.process.pid);
}

function firstOf<T, U>(items: readonly T[], look: (item: T) => U | undefined): U | undefined {
  for (const item of items) {
    const value = look(item);
    if (value !== undefined) return value;
  }
  return undefined;
}
