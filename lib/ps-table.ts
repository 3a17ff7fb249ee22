/**
 * The process table where there is no /proc (macOS): ps(1) for who there is, lsof(8) for visitors. A missing tool means
 * less is found, never more, and it is said. Environments cannot be told from arguments there, so there are no tokens; and
 * there is no hold: only the recorded process and its descendants are ended, and visitors named.
 */
import { messageOf } from './errors.ts';
import type { Location, ProcessTable } from './process-table.ts';
import { type ProcessInfo, parsePs } from './processes.ts';
import { runTool } from './tool.ts';

const PS = ['-axo', 'pid=,uid=,tty=,ppid=,state=,lstart=,ucomm='];

export class PsTable implements ProcessTable {
  readonly uid: number;
  readonly missed = 0;
  readonly gaps: string[] = [];
  readonly #rows: ReadonlyMap<number, PsRow>;
  readonly #ask: typeof runTool;

  /** `ask` runs a tool and gives what it prints; a test puts captured text in its place. */
  constructor(uid: number, ask = runTool) {
    this.uid = uid;
    this.#ask = ask;
    this.#rows = parsePsTable(this.#run('/bin/ps', PS));
  }

  #run(file: string, args: readonly string[]): string {
    try {
      return this.#ask(file, args);
    } catch (error) {
      this.gaps.push(`${file} failed, so less was looked at: ${messageOf(error)}`);
      return '';
    }
  }

  pids(): Iterable<number> {
    return this.#rows.keys();
  }

  get(pid: number): ProcessInfo | undefined {
    return this.#rows.get(pid);
  }

  uidOf(pid: number): number | undefined {
    return this.#rows.get(pid)?.uid;
  }

  visitors(path: string): ReadonlyMap<number, Location> {
    return parseLsof(this.#run('/usr/sbin/lsof', ['-nPw', '-u', String(this.uid), '-F', 'pfn']), path);
  }

  tokensOf = () => undefined;
  withToken = () => [];
  holders = () => [];
  argv = () => [];
  stdio = () => ['', '', ''] as const;
  sharesMounts = () => true;
  countUnreadable = () => 0;
}

export interface PsRow extends ProcessInfo {
  readonly uid: number;
}

/** Reads lines such as "  812   501 ttys003      1 S    Mon Nov 30 13:11:00 2026     zsh"; others say nothing. */
export function parsePsTable(text: string): Map<number, PsRow> {
  const rows = new Map<number, PsRow>();
  for (const line of text.split('\n')) {
    const [, pid, uid, tty, rest] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    const info = rest === undefined ? undefined : parsePs(Number(pid), rest);
    if (info)
      rows.set(info.pid, { ...info, uid: Number(uid), tty: /^\?+$|^-$/.test(tty as string) ? '0' : (tty as string) });
  }
  return rows;
}

const PLACES: Readonly<Record<string, Location>> = { cwd: 'cwd', rtd: 'root', txt: 'exe' };

/** Reads `lsof -F pfn`: p<pid>, then f<descriptor> and n<name> for each file; gives who is in the place. */
export function parseLsof(text: string, path: string): Map<number, Location> {
  const found = new Map<number, Location>();
  let pid = 0;
  let place: Location = 'file';
  for (const line of text.split('\n')) {
    const value = line.slice(1);
    if (line.startsWith('p')) pid = Number(value);
    else if (line.startsWith('f')) place = PLACES[value] ?? 'file';
    else if (line.startsWith('n') && (value === path || value.startsWith(`${path}/`))) {
      if (pid > 0 && found.get(pid) !== 'cwd') found.set(pid, place);
    }
  }
  return found;
}
