/** Writing to the standard streams, whole and at once: what could not be written is known before the status is chosen. */
import { errnoOf } from './errors.ts';
import { writeSync } from './fs.ts';

/** Whoever shares a stream may have made it non-blocking: how long to wait before the next try, in milliseconds. */
const PAUSE = 5;

/** Writes all of a text. A reader that went away is no failure. @throws the errno of anything else, such as a full disk. */
export function writeText(fd: 1 | 2, text: string): void {
  const bytes = Buffer.from(text);
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
