/** How processes are tied to a task and to each other: what the rules of section 10 ask (reap-rules.ts). */
import type { ProcessTable } from './process-table.ts';
import type { ProcessInfo } from './processes.ts';
import type { Candidate, Evidence, ReapTarget } from './reap-target.ts';
import { sharedServer } from './shared-servers.ts';

/**
 * Of a task that was started inside this one (FM_TASK_PARENT). Not a server that people share and that left that task to
 * be a daemon, nor what such a server started with its own environment: they outlive the task.
 */
export function isInner(candidate: Candidate): boolean {
  const { process, table, target } = candidate;
  const tokens = table.tokensOf(process.pid);
  if (!tokens?.parent.includes(target.token) || tokens.own.length === 0 || tokens.own.includes(target.token))
    return false;
  for (const pid of lineOf(table, process.pid)) {
    const carries = (each: number) => table.tokensOf(each)?.own.some((token) => tokens.own.includes(token)) ?? false;
    const server = table.get(pid);
    if (server?.session === pid && carries(pid) && !carries(server.ppid) && nameServer(candidate, pid)) return false;
  }
  return true;
}

export function isLocation(evidence: Evidence): boolean {
  return evidence === 'cwd' || evidence === 'root' || evidence === 'exe' || evidence === 'file';
}

/** What no server that people share can have passed on to a process it started for somebody else. */
export function isSure(evidence: Evidence): boolean {
  return evidence === 'hold' || evidence === 'descendant' || evidence === 'session';
}

/** The recorded process, where it counts: a pid alone proves nothing (B11). */
export function livingProcess(table: ProcessTable, { living }: ReapTarget): ProcessInfo | undefined {
  const found = living && table.get(living.pid);
  return found && !found.dead && found.start === living.start ? found : undefined;
}

export function listDescendants(table: ProcessTable, target: ReapTarget): number[] {
  const first = livingProcess(table, target)?.pid;
  return first === undefined ? [] : [...table.pids()].filter((pid) => lineOf(table, pid).includes(first));
}

export function descendsFromLiving(table: ProcessTable, target: ReapTarget, pid: number): boolean {
  const first = livingProcess(table, target)?.pid;
  return first !== undefined && lineOf(table, pid).includes(first);
}

/** A process and its ancestors, nearest first. */
export function lineOf(table: ProcessTable, pid: number): number[] {
  const line: number[] = [];
  for (let next = pid; next > 1 && !line.includes(next); next = table.get(next)?.ppid ?? 0) line.push(next);
  return line;
}

/** What kind of shared server a process is; that it is the task's is another question. */
function nameServer({ table, self }: Candidate, pid: number): string | undefined {
  const process = table.get(pid);
  return process && sharedServer(process.name, table.argv(pid), self.spare());
}

/**
 * A shared server that this task started: people run everything in a tmux, and that one is not the task's. For a mere
 * visitor one that visits counts, too.
 */
export function isServer(candidate: Candidate, pid: number): boolean {
  const evidence = candidate.found.get(pid);
  if (!evidence || (evidence.every(isLocation) && !candidate.evidence.every(isLocation))) return false;
  return nameServer(candidate, pid) !== undefined;
}

export function serverAbove(candidate: Candidate, pid: number): { pid: number; what: string } | undefined {
  const server = lineOf(candidate.table, pid).find((each) => isServer(candidate, each));
  return server === undefined ? undefined : { pid: server, what: nameServer(candidate, server) as string };
}

/** Started before the other, in ticks; false when they cannot be compared. */
export function isOlder(one: { readonly start: string }, other: { readonly start: string } | undefined): boolean {
  return (
    other !== undefined &&
    /^\d+$/.test(one.start) &&
    /^\d+$/.test(other.start) &&
    BigInt(one.start) < BigInt(other.start)
  );
}

/** In `teardown | tee log` of a shell that carries the token tee does, too: pipes tie it to us, over any number of steps. */
export function isInPipeline({ process, found, table, self }: Candidate): boolean {
  const isPipe = (link: string) => link.startsWith('pipe:');
  const down = new Set([self.stdio[1], self.stdio[2]].filter(isPipe));
  const up = new Set([self.stdio[0]].filter(isPipe));
  if (down.size + up.size === 0) return false;
  const joined = new Set<number>();
  for (let before = -1; before < joined.size; ) {
    before = joined.size;
    for (const pid of found.keys()) {
      const [input, ...outputs] = table.stdio(pid);
      const isDown = down.has(input);
      const isUp = outputs.some((output) => up.has(output));
      if (!isDown && !isUp) continue;
      joined.add(pid);
      if (isDown) for (const output of outputs.filter(isPipe)) down.add(output);
      if (isUp && isPipe(input)) up.add(input);
    }
  }
  return joined.has(process.pid);
}
