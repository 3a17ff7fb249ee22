/**
 * What a process is and whether it still is: pid and start time. On Linux from /proc without any tool; on macOS from
 * ps(1). What cannot be read is 'unreadable', never 'gone' (case B89).
 */
import { errnoOf, TaskError } from './errors.ts';
import { readFileSync } from './fs.ts';
import { runTool } from './tool.ts';

export interface ProcessInfo {
  readonly pid: number;
  readonly ppid: number;
  /** In clock ticks since boot (/proc/PID/stat field 22); on macOS the date that ps prints, in UTC, without blanks. */
  readonly start: string;
  /** The controlling terminal's device number, "0" for none. */
  readonly tty: string;
  /** The session's id, which is its leader's pid; 0 where it is not known (macOS). */
  readonly session: number;
  /** The program's name as the kernel has it, at most 15 bytes; anybody may choose it. */
  readonly name: string;
  /** A thread of the kernel: no program, nobody's. */
  readonly kernel: boolean;
  /** A zombie whose threads are all gone: dead. */
  readonly dead: boolean;
}

export type ProcessReading = ProcessInfo | 'gone' | 'unreadable';

export function readProcess(pid: number): ProcessReading {
  return process.platform === 'linux' ? readProcStat(pid) : readPs(pid);
}

function readProcStat(pid: number): ProcessReading {
  try {
    return parseStat(pid, readFileSync(`/proc/${pid}/stat`, 'latin1')) ?? 'unreadable';
  } catch (error) {
    const errno = errnoOf(error);
    // With hidepid, and without /proc, ENOENT says nothing: ask the kernel itself.
    if (errno === 'ENOENT' || errno === 'ESRCH') return exists(pid) ? 'unreadable' : 'gone';
    return 'unreadable';
  }
}

/** Whether the kernel knows the pid at all. */
function exists(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    return errnoOf(error) !== 'ESRCH';
  }
}

/** Reads /proc/PID/stat; the command name in it may hold anything, also ")" and blanks: fields count from the last ")". */
export function parseStat(pid: number, text: string): ProcessInfo | undefined {
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .trim()
    .split(' ');
  const [state, ppid, session, tty, flags, threads, start] = [0, 1, 3, 4, 6, 17, 19].map((at) => fields[at]);
  if (!state || !start || !/^\d+$/.test(start)) return undefined;
  // A zombie with more than one thread is a process whose first thread ended and whose others run on.
  const dead = state === 'X' || state === 'x' || (state === 'Z' && Number(threads) <= 1);
  // PF_KTHREAD
  const kernel = (Number(flags) & 0x00200000) !== 0;
  const name = Buffer.from(text.slice(text.indexOf('(') + 1, text.lastIndexOf(')')), 'latin1').toString();
  return { pid, ppid: Number(ppid), start, tty: tty ?? '0', session: Number(session), name, kernel, dead };
}

function readPs(pid: number): ProcessReading {
  try {
    const line = runTool('/bin/ps', ['-o', 'ppid=,state=,lstart=,ucomm=', '-p', String(pid)]);
    return parsePs(pid, line) ?? 'unreadable';
  } catch {
    return exists(pid) ? 'unreadable' : 'gone';
  }
}

const PS_LINE =
  /^\s*(\d+)\s+(\S+)\s+[A-Z][a-z]{2}\s+([A-Z][a-z]{2})\s+(\d+)\s+(\d\d:\d\d:\d\d)\s+(\d{4})(?:\s+(\S.*?))?\s*$/;

/** Reads a line such as "  1 S    Mon Nov 30 13:11:00 2026     sleep". The terminal is not asked for. */
export function parsePs(pid: number, text: string): ProcessInfo | undefined {
  const [, ppid, state, month, day, time, year, name = '?'] = PS_LINE.exec(text) ?? [];
  const date = Date.parse(`${month} ${day} ${year} ${time} UTC`);
  if (!state || Number.isNaN(date)) return undefined;
  return {
    pid,
    ppid: Number(ppid),
    start: String(date / 1000),
    tty: '0',
    session: 0,
    name,
    kernel: false,
    dead: state.startsWith('Z'),
  };
}

/** A living process, named by somebody: not there, dead or unreadable is a wrong argument. @throws TaskError USAGE */
export function requireProcess(pid: number): ProcessInfo {
  const found = readProcess(pid);
  if (typeof found !== 'string' && !found.dead) return found;
  throw new TaskError('USAGE', `there is no process ${pid}, or it cannot be read`);
}

/** Whether the process with this start time lives. Another start time is another process (B02). */
export function probeProcess(pid: number, start: string): 'alive' | 'dead' | 'unreadable' {
  const found = readProcess(pid);
  if (found === 'unreadable') return 'unreadable';
  return found !== 'gone' && found.start === start && !found.dead ? 'alive' : 'dead';
}

/**
 * Sends a signal to that process and to no other: its start time is proved right before (B02, case B89). 'gone' also when
 * another process has the pid now; 'denied' when it may not be signalled or cannot be read.
 */
export function signalProcess(
  { pid, start }: Pick<ProcessInfo, 'pid' | 'start'>,
  name: NodeJS.Signals,
): 'sent' | 'gone' | 'denied' {
  // kill(2) takes 0 and negative numbers for whole groups, and 1 is everybody's parent.
  if (!Number.isSafeInteger(pid) || pid <= 1) return 'denied';
  const found = probeProcess(pid, start);
  if (found !== 'alive') return found === 'dead' ? 'gone' : 'denied';
  try {
    process.kill(pid, name);
    return 'sent';
  } catch (error) {
    return errnoOf(error) === 'ESRCH' ? 'gone' : 'denied';
  }
}

/** A process and everything above it: never to be ended by what runs below it. */
export function lineage(pid: number): Set<number> {
  const pids = new Set<number>();
  for (let next = pid; next > 0 && !pids.has(next); ) {
    pids.add(next);
    const found = readProcess(next);
    next = typeof found === 'string' ? 0 : found.ppid;
  }
  return pids;
}
