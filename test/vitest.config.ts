import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/helpers/install.ts'],
    // Most of a test is waiting for a process: more files at a time than there are cores.
    maxWorkers: 3,
    // On a loaded CI machine a test that fails once and then passes is shown as retried; a broken promise fails twice.
    retry: process.env.CI ? 1 : 0,
    reporters: ['default', 'test/helpers/counts.ts'],
    // Real processes on a loaded machine: a limit is for what hangs, never for what is slow.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
