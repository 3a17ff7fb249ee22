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

const SPARERS: readonly Sparer[] = [
  {
    name: 'caller',
    spare: ({ process, self }) =>
      process.pid <= 1 || self.lineage.has(process.pid)
        ? { reason: 'this command runs in it', remedy: 'it ends by itself, or end it yourself' }
        : undefined,
  },
  {
    name: 'pipeline',
    spare: (candidate) =>
      isInPipeline(candidate)
        ? { reason: 'it is in the pipeline of this command', remedy: 'it ends with the pipeline' }
        : undefined,
  },
  {
    name: 'another-uid',
    spare: ({ process, table }) =>
      table.uidOf(process.pid) === table.uid
        ? undefined
        : { reason: 'it is of another user', remedy: 'end it as that user if it is not needed' },
  },
  {
    name: 'another-task',
    spare: ({ process, table, target }) =>
      table.tokensOf(process.pid)?.own.some((token) => token !== target.token)
        ? { reason: "it carries another task's token", remedy: 'it goes with the teardown of that task' }
        : undefined,
  },
  {
    name: 'another-terminal',
    spare: ({ process: { pid, tty }, table, target }) =>
      tty === '0' || tty === target.tty || descendsFromLiving(table, target, pid)
        ? undefined
        : { reason: 'it has another terminal than the task', remedy: 'end it there if it is not needed' },
  },
  {
    name: 'shared-server',
    spare: (candidate) => {
      const server = serverAbove(candidate, candidate.process.pid);
      if (!server) return undefined;
      const own = server.pid === candidate.process.pid;
      return {
        reason: own
          ? `a shared server (${server.what})`
          : `it runs in the shared server ${server.pid} (${server.what})`,
        remedy: 'end it yourself if nobody needs it',
      };
    },
  },
  {
    name: 'younger-than-server',
    spare: (candidate) => {
      const { process, evidence } = candidate;
      if (evidence.some((each) => each !== 'token' && !isLocation(each))) return undefined;
      const server = [...candidate.found.keys()].find(
        (pid) => pid !== process.pid && isServer(candidate, pid) && !isOlder(process, candidate.table.get(pid)),
      );
      return server === undefined
        ? undefined
        : {
            reason: `the shared server ${server} carries the task's token and may have started it for anybody`,
            remedy: 'end it yourself if it is not needed',
          };
    },
  },
  {
    name: 'visitor',
    spare: (candidate) => {
      const { process, evidence, table, target } = candidate;
      if (!evidence.every(isLocation)) return undefined;
      if (target.visitors !== 'end') return { reason: 'a visitor', remedy: 'end it, or use --reap-visitors' };
      const remedy = 'end it yourself if it is not needed';
      if (process.tty !== '0') return { reason: 'a visitor with a terminal', remedy };
      if (!table.sharesMounts(process.pid)) return { reason: 'a visitor with other mounts', remedy };
      if (target.since === undefined || !isOlder({ start: target.since }, process))
        return { reason: 'a visitor that was not started after the task', remedy };
      return undefined;
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
  const judged = [...found].map(([pid, evidence]): Judgement => {
    const process = table.get(pid) as ProcessInfo;
    const candidate = { process, evidence, found, table, target, self };
    const inner = isInner(candidate);
    const spare = inner ? undefined : firstOf(sparers, ({ spare }) => spare(candidate));
    const verdict = inner ? 'inner' : spare ? 'spare' : 'end';
    return { process, evidence, verdict, reason: spare?.reason ?? '', remedy: spare?.remedy ?? '' };
  });
  const inner = table
    .withToken(target.token)
    .filter((pid) => !found.has(pid) && pid !== self.pid)
    .flatMap((pid): Judgement[] => {
      const process = table.get(pid);
      if (!process || process.dead || !isInner({ process, evidence: [], found, table, target, self })) return [];
      return [{ process, evidence: [], verdict: 'inner', reason: '', remedy: '' }];
    });
  return [...judged, ...inner].sort((one, other) => one.process.pid - other.process.pid);
}

function firstOf<T, U>(items: readonly T[], look: (item: T) => U | undefined): U | undefined {
  for (const item of items) {
    const value = look(item);
    if (value !== undefined) return value;
  }
  return undefined;
}
