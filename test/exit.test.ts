/** The table of exit statuses in the code and the one in the docs say the same (design section 11). */
import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { BUG, SPAWN_STATUS, TEARDOWN_STATUS, worstStatus } from '../lib/exit.ts';

const DOCS = readFileSync(new URL('../docs/exit-statuses.md', import.meta.url), 'utf8');

/** The rows `| <number> | \`CODE\`, \`CODE\` | text |` under a heading, as code -> status. */
function readTable(heading: string): Record<string, number> {
  const [, section] = DOCS.split(new RegExp(`^## ${heading}$`, 'm'));
  if (section === undefined) throw new Error(`docs/exit-statuses.md has no heading "## ${heading}"`);
  const rows = (section.split(/^## /m)[0] as string).matchAll(/^\| *(\d+) *\| *((?:`[A-Z_]+`(?:, *)?)+) *\|.*\|$/gm);
  const pairs = [...rows].flatMap(([, status, codes]) =>
    [...(codes as string).matchAll(/[A-Z_]+/g)].map(([code]) => [code, Number(status)] as const),
  );
  expect(new Set(pairs.map(([code]) => code)).size).toBe(pairs.length);
  return Object.fromEntries(pairs);
}

describe('docs/exit-statuses.md and lib/exit.ts', () => {
  test('agree about task-spawn, both ways', () => {
    expect(readTable('task-spawn')).toEqual(SPAWN_STATUS);
  });

  test('agree about task-teardown and task-status, both ways', () => {
    expect(readTable('task-teardown and task-status')).toEqual(TEARDOWN_STATUS);
  });
});

describe('worstStatus', () => {
  // Design section 11: the first that occurs of these is returned.
  const ORDER = [70, 65, 69, 74, 77, 78, 1, 75, 0];

  test('is the first of the order that occurs, whatever order they come in', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...ORDER)), (statuses) => {
        const first = ORDER.find((status) => statuses.includes(status)) ?? 0;
        expect(worstStatus(statuses)).toBe(first);
      }),
    );
  });

  test('knows every status that a task can end with', () => {
    for (const status of [...Object.values(TEARDOWN_STATUS), BUG.teardown]) {
      expect(worstStatus([0, status])).toBe(status);
    }
  });
});
