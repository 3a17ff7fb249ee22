/** A sandbox on a file system in memory where there is one: many thousand entries on a disk take their time. */
import { accessSync, chmodSync, constants, mkdirSync } from 'node:fs';
import { dir } from 'tmp-promise';
import { Sandbox, test as withSandbox } from './sandbox.ts';

function memoryFolder(): string {
  try {
    accessSync('/dev/shm', constants.W_OK | constants.X_OK);
    return '/dev/shm';
  } catch {
    return '/tmp';
  }
}

/** `test` with a `sandbox` on disk and a `memory` sandbox, both disposed of afterwards. */
export const test = withSandbox.extend<{ memory: Sandbox }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the parameter to find what a fixture depends on
  memory: async ({}, use) => {
    const { path } = await dir({ tmpdir: memoryFolder(), prefix: 'ts', keep: true });
    chmodSync(path, 0o755);
    const memory = new Sandbox(path);
    mkdirSync(memory.base, { mode: 0o755 });
    try {
      await use(memory);
    } finally {
      await memory.dispose();
    }
  },
});
