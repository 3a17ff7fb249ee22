/** Writing to standard output and error at once: Node's streams cost 5 ms to load and set O_NONBLOCK on a shared pipe. */
import { errnoOf } from './errors.ts';
import { fstatSync, writeSync } from './fs.ts';
import { lazyRequire } from './lazy.ts';

/** How long a full pipe of somebody else's making is left alone before the next try, in milliseconds. */
const PAUSE = 5;

/** Writes all of it; a reader that went away is no failure. @throws the errno of anything else, such as a full disk */
export function writeText(fd: number, text: string | Buffer): void {
  const bytes = Buffer.from(text as string);
  for (let done = 0; done < bytes.length; ) {
    try {
      done += writeSync(fd, bytes, done);
    } catch (error) {
      if (errnoOf(error) === 'EPIPE') return;
      if (errnoOf(error) !== 'EAGAIN') throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PAUSE);
    }
  }
}

/** Whether a descriptor is a terminal. node:tty is loaded only for what may be one. */
export function isTerminal(fd: number): boolean {
  try {
    return fstatSync(fd).isCharacterDevice() && (lazyRequire('node:tty') as typeof import('node:tty')).isatty(fd);
  } catch {
    return false;
  }
}
