import { defineConfig } from 'vitest/config';

export default defineConfig({
  test: {
    root: new URL('..', import.meta.url).pathname,
    include: ['test/**/*.test.ts'],
    globalSetup: ['test/helpers/install.ts'],
    reporters: ['default', 'test/helpers/counts.ts'],
    // Real processes on a loaded machine: a limit is for what hangs, never for what is slow.
    testTimeout: 120_000,
    hookTimeout: 120_000,
  },
});
