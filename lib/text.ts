/** Numbers and paths as people read them. */

/** How much of a path a message shows, in characters. */
const LONG = 1000;

export function formatCount(count: number, one: string, many: string): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** In one line and without what a terminal obeys: names of files and processes are anybody's. */
export function oneLine(text: string): string {
  return text.replaceAll(/[\p{Cc}\u2028\u2029]+/gu, ' ');
}

/** A process's name, which anybody may choose: with line breaks, or what a terminal obeys. */
export function printable(name: string): string {
  return name.replaceAll(/[\p{Cc}\u2028\u2029\uFFFD]/gu, '?');
}

/** The end of a path, where it is very long. */
export function shorten(path: string): string {
  return path.length > LONG ? `…${path.slice(-LONG)}` : path;
}

/** 1536 -> "1.5 KiB". */
export function formatBytes(bytes: number): string {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(Math.floor(Math.log2(Math.max(bytes, 1)) / 10), units.length - 1);
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${units[power]}`;
}

/** 90000 -> "1m", 7200000 -> "2h": milliseconds as the largest whole unit. */
export function formatAge(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** A path to paste into a shell. */
export function quoteForPeople(path: string): string {
  return /^[\w@%+=:,./-]+$/.test(path) ? path : `'${path.replaceAll("'", `'\\''`)}'`;
}
