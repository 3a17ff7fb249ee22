/** task-status: options -> listing -> table or JSON on standard output. */
import pkg from '../../package.json' with { type: 'json' };
import { findHome } from '../home.ts';
import { readMachine } from '../machine.ts';
import { report } from '../main.ts';
import { writeText } from '../output.ts';
import { assertTaskId, locateBase, locateHome } from '../paths.ts';
import { type Listing, listTasks, type TaskProcess, type TaskStatus } from '../status.ts';
import { formatAge, formatBytes, formatCount, oneLine, printable, quoteForPeople } from '../text.ts';
import { parseOptions } from './options.ts';

export const HELP = `usage: task-status [options] [<id> ...]

Shows the tasks of a home: what exists, what is live, what was kept and why, and
what to do next. Reads only. Directories in the base that look like this home's
but have no record are listed with the command that removes them, and never
removed.

  --json       one object on standard output
  --home DIR   the home that scopes tasks (FM_HOME)
  --base DIR   also look for unrecorded directories here (FM_TASK_TMP_BASE; /tmp)
  --help, --version

Exit status: 0; 64 usage; 74 I/O; 78 the home cannot be used.
`;

const OPTIONS = {
  home: { type: 'string' },
  base: { type: 'string' },
  json: { type: 'boolean' },
  help: { type: 'boolean', short: 'h' },
  version: { type: 'boolean' },
} as const;

/** Gives the exit status. */
export async function main(args: readonly string[]): Promise<number> {
  const { values, positionals } = parseOptions(args, OPTIONS);
  const ids = [...new Set(positionals)];
  if (values.help || values.version) {
    writeText(1, values.help ? HELP : `${pkg.version}\n`);
    return 0;
  }
  ids.forEach(assertTaskId);
  const home = findHome(locateHome(values.home, process.env), process.geteuid?.() ?? 0, process.env, false);
  if ('missing' in home) {
    report('task-status', `${home.missing}: nothing to show`);
    if (values.json) writeText(1, formatJson(undefined, { tasks: [], unrecorded: [], unreadable: 0 }));
    return 0;
  }
  const base = locateBase(values.base, process.env).path;
  const listing = listTasks(home, readMachine(), ids.length > 0 ? ids : undefined, [base]);
  writeText(1, values.json ? formatJson(home.path, listing) : formatTable(listing, Date.now()));
  for (const id of ids) if (!listing.tasks.some((task) => task.id === id)) report('task-status', `${id}: no record`);
  return 0;
}

/** The documented object (docs/json.md). */
function formatJson(home: string | undefined, { tasks, unrecorded, unreadable }: Listing): string {
  return `${JSON.stringify({ version: 1, home: home ?? null, tasks, unrecorded, unreadable }, null, 2)}\n`;
}

function formatTable({ tasks, unrecorded }: Listing, now: number): string {
  const rows = [['ID', 'STATE', 'AGE', 'PID', 'ROOT'], ...tasks.map((task) => formatRow(task, now))];
  const widths = rows[0]?.map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0))) ?? [];
  const lines = rows.flatMap((row, index) => {
    const line = row
      .map((cell, column) => cell.padEnd(widths[column] ?? 0))
      .join('  ')
      .trimEnd();
    const task = tasks[index - 1];
    const processes = formatProcesses(task?.processes ?? []);
    return [
      line,
      ...processes,
      ...(task?.reason ? [`    ${oneLine(task.reason)}`] : []),
      ...(task?.next ? [`    next: ${oneLine(task.next)}`] : []),
    ];
  });
  const strays = unrecorded.map((path) => `    rm -rf -- ${quoteForPeople(path)}\n`);
  const stray =
    strays.length > 0 ? `\nWithout a record, and never removed by us; if nothing needs them:\n${strays.join('')}` : '';
  return `${tasks.length > 0 ? lines.join('\n') : 'no tasks'}\n${stray}`;
}

/** "2 processes, 12.5 MiB: 12 (node) 12.0 MiB, 13 (sleep) 0.5 MiB"; at most five are named. */
function formatProcesses(processes: readonly TaskProcess[]): string[] {
  if (processes.length === 0) return [];
  const memory = (kib: number | undefined) => (kib === undefined ? '' : ` ${formatBytes(kib * 1024)}`);
  const total = processes.reduce((sum, { memoryKiB = 0 }) => sum + memoryKiB, 0);
  const named = processes
    .slice(0, 5)
    .map(
      ({ pid, command, memoryKiB, spared }) =>
        `${pid} (${printable(command)}${spared ? '; spared' : ''})${memory(memoryKiB)}`,
    );
  const more = processes.length > named.length ? ` and ${processes.length - named.length} more` : '';
  return [`    ${formatCount(processes.length, 'process', 'processes')},${memory(total)}: ${named.join(', ')}${more}`];
}

function formatRow({ id, state, createdAt, pid, root }: TaskStatus, now: number): string[] {
  const age = createdAt === undefined ? '-' : formatAge(now - Date.parse(createdAt));
  return [id, state, age, pid === undefined ? '-' : String(pid), root ?? '-'];
}
