/** Small reads of /proc: what cannot be read, or is gone, is empty and throws nothing. */
import { readdirSync, readFileSync, readlinkSync } from './fs.ts';

/** The whole of a small file, as latin1 text. */
export function readText(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}

/** Where a link of /proc leads to, as the kernel names it; nothing at its end is looked at. */
export function readLink(path: string): string {
  try {
    return readlinkSync(path);
  } catch {
    return '';
  }
}

/** The names in a folder. */
export function namesIn(folder: string): string[] {
  try {
    return readdirSync(folder);
  } catch {
    return [];
  }
}

/** How much memory a process has in RAM, in KiB (VmRSS); undefined where that is not known, as on macOS. */
export function readMemory(pid: number): number | undefined {
  const [, kib] = /^VmRSS:\s*(\d+) kB/m.exec(readText(`/proc/${pid}/status`)) ?? [];
  return kib === undefined ? undefined : Number(kib);
}
