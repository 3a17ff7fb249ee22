/** A sandbox in memory, where the file system there knows birth times: fsync costs nothing, so that hundreds of runs fit. */
import { accessSync, constants, lstatSync, mkdirSync } from 'node:fs';
import { dir } from 'tmp-promise';
import { makeSandbox, Sandbox, test as slow } from './sandbox.ts';

const MEMORY = '/dev/shm';

function isFit(): boolean {
  try {
    accessSync(MEMORY, constants.W_OK);
    return lstatSync(MEMORY, { bigint: true }).birthtimeNs !== 0n;
  } catch {
    return false;
  }
}

export async function makeFastSandbox(): Promise<Sandbox> {
  if (!isFit()) return makeSandbox();
  const { path } = await dir({ tmpdir: MEMORY, prefix: 'ts', keep: true, mode: 0o755 });
  const sandbox = new Sandbox(path);
  mkdirSync(sandbox.base, { mode: 0o755 });
  return sandbox;
}

/** `test` whose sandbox is such a one. */
export const test = slow.extend<{ sandbox: Sandbox }>({
  // biome-ignore lint/correctness/noEmptyPattern: vitest reads the parameter to find what a fixture depends on
  sandbox: async ({}, use) => {
    const sandbox = await makeFastSandbox();
    try {
      await use(sandbox);
    } finally {
      await sandbox.dispose();
    }
  },
});
