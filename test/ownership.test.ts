import { chmodSync, chownSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'vitest';
import { assertTrusted } from '../lib/ownership.ts';
import { isRoot, NOBODY, test } from './helpers/sandbox.ts';

const uid = process.geteuid?.() ?? 0;

test.for([
  [0o700, true],
  [0o755, true],
  [0o1777, true],
  [0o1770, true],
  [0o775, false],
  [0o757, false],
  [0o777, false],
  [0o2777, false],
] as const)('a folder, and an ancestor, of the mode %o', ([mode, trusted], { sandbox }) => {
  const [outer, inner] = [join(sandbox.path, 'outer'), join(sandbox.path, 'outer/inner')];
  mkdirSync(inner, { recursive: true });
  chmodSync(outer, mode);
  if (trusted) {
    assertTrusted('it', outer, uid);
    assertTrusted('it', inner, uid);
    return;
  }
  expect(() => assertTrusted('it', outer, uid)).toThrow(`it ${outer} can be written by others and is not sticky`);
  expect(() => assertTrusted('it', inner, uid)).toThrow(`it ${inner}: its ancestor ${outer} can be written by others`);
});

test.skipIf(!isRoot)('an owner other than root and us, of it or of an ancestor', ({ sandbox }) => {
  const [outer, inner] = [join(sandbox.path, 'outer'), join(sandbox.path, 'outer/inner')];
  mkdirSync(inner, { recursive: true });
  chownSync(outer, NOBODY, NOBODY);
  expect(() => assertTrusted('it', outer, 0)).toThrow(`it ${outer} belongs to uid ${NOBODY}`);
  expect(() => assertTrusted('it', inner, 0)).toThrow(`its ancestor ${outer} belongs to uid ${NOBODY}`);
  assertTrusted('it', inner, NOBODY);
  expect(() => assertTrusted('it', inner, 1234)).toThrow('belongs to uid');
});
