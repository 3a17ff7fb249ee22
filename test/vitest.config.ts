import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/helpers/install.ts'],
    // Most of a test is waiting for a process: more files at a time than there are cores.
    maxWorkers: 3,
    reporters: ['default', 'test/helpers/counts.ts'],
    // Real processes on a loaded machine: a limit is for what hangs, never for what is slow.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
