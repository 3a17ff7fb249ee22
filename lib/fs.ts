/**
 * The file system calls of this project and nothing else: the one place where a test puts an errno in.
 * All of them are synchronous: a step of spawn or teardown is not interleaved with anything.
 */
export {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  fchmodSync,
  fstatSync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  opendirSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
  renameSync,
  rmdirSync,
  statfsSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';

import { realpathSync as walk } from 'node:fs';

/** The system's own: Node's walks the path in JavaScript, which costs each start a millisecond. */
export const realpathSync = walk.native;
