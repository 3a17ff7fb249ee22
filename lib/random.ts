/** Random keys. From the kernel's own device: node:crypto costs a fifth of a launch to load (docs/bench.md). */
import { closeSync, openSync, readSync } from './fs.ts';

/** `bytes` random bytes in lower-case hex. */
export function randomHex(bytes: number): string {
  const fd = openSync('/dev/urandom', 'r');
  try {
    const buffer = Buffer.alloc(bytes);
    for (let done = 0; done < bytes; ) done += readSync(fd, buffer, done, bytes - done, null);
    return buffer.toString('hex');
  } finally {
    closeSync(fd);
  }
}
