/** The addon that locks (fs-native-extensions): its prebuilt file, found and loaded without its loader. */
import { dirname } from 'node:path';
import { errnoOf, messageOf, TaskError } from './errors.ts';
import { statSync } from './fs.ts';
import { lazyRequire } from './lazy.ts';
import { inFolder } from './paths.ts';

export interface LockAddon {
  tryLock(fd: number, offset: number, length: number, exclusive: boolean): void;
}

const ADDON = `fs-native-extensions/prebuilds/${process.platform}-${process.arch}/fs-native-extensions.node`;

/**
 * The package's prebuilt file itself: its JavaScript loader costs each start 9 to 12 ms, and looking for it as require()
 * does 3 (measured). @throws TaskError CONFIG
 */
export function loadAddon(): LockAddon {
  try {
    const path = findAddon();
    if (path === undefined) return lazyRequire(ADDON) as LockAddon;
    const loaded = { exports: {} as LockAddon };
    process.dlopen(loaded, path);
    return loaded.exports;
  } catch (error) {
    const why = errnoOf(error) === 'MODULE_NOT_FOUND' ? 'it is not there' : messageOf(error);
    throw new TaskError('CONFIG', `the lock's addon ${ADDON} cannot be loaded (${why}): install task-spawn again`);
  }
}

/** Where packages lie most often: in a node_modules beside our own files or further up. */
function findAddon(): string | undefined {
  for (let folder = import.meta.dirname; ; folder = dirname(folder)) {
    const path = inFolder(folder, `node_modules/${ADDON}`);
    if (isFile(path)) return path;
    if (folder === dirname(folder)) return undefined;
  }
}

function isFile(path: string): boolean {
  try {
    return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
  } catch {
    return false;
  }
}
