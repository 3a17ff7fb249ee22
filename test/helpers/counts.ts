/** The closing line "N passed, N failed, N skipped", counted from the results themselves. */
import type { Reporter, TestModule } from 'vitest/node';

export default class Counts implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const counts = { passed: 0, failed: errors.length, skipped: 0, pending: 0 };
    for (const module of modules) {
      for (const test of module.children.allTests()) counts[test.result().state]++;
      // A file that could not even be loaded has no tests: it is a failure all the same.
      if (!module.ok() && ![...module.children.allTests('failed')].length) counts.failed++;
    }
    const { passed, failed, skipped, pending } = counts;
    process.stdout.write(`\n${passed} passed, ${failed + pending} failed, ${skipped} skipped\n`);
  }
}
