import { resolve } from 'node:path';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  deriveRoot,
  deriveTag,
  gotmpOf,
  homePaths,
  isTaskId,
  locateBase,
  locateHome,
  recordId,
  taskPaths,
} from '../lib/paths.ts';

const id = fc
  .stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/)
  .filter((text) => !text.includes('..') && !/(\.|\.lock)$/.test(text));

describe('ids', () => {
  test('are exactly what the grammar says', () => {
    fc.assert(fc.property(id, isTaskId));
    const free = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string({ unit: fc.constantFrom('a', '.', '-', '/', '..', '.lock', '\n') }),
    );
    fc.assert(
      fc.property(free, (text) => {
        const good =
          /^[A-Za-z0-9][A-Za-z0-9._-]*$/.test(text) && text.length <= 64 && !/\.\.|\.lock$|\.$|\n/.test(text);
        expect(isTaskId(text)).toBe(good);
      }),
      { numRuns: 2000 },
    );
  });

  test.for([
    'a',
    '0',
    'A.b_c-d',
    'a-',
    'a_',
    'lock',
    'a.lock.b',
    'alock',
    'x'.repeat(64),
    'home-id',
    'a.meta',
    'a.meta.removing',
  ])('%j is one', (text) => expect(isTaskId(text)).toBe(true));

  test.for([
    '',
    '.',
    '..',
    'a/b',
    '/',
    'a..b',
    '../a',
    'x.lock',
    'a.',
    'a\n',
    '\na',
    'a\nb',
    '-rf',
    '--',
    '_a',
    '.a',
    'x'.repeat(65),
    'x'.repeat(300),
    'a b',
    ' a',
    'a ',
    '$(x)',
    '`x`',
    'a\0',
    'a\\b',
    'a:b',
    'a~b',
    'a^b',
    'a?',
    'a*',
    'a[',
    'a@{b',
    'é',
    'e\u0301',
    '\u0430',
    'Ａ',
    'a\u200b',
    '%2e%2e',
  ])('%j is none', (text) => expect(isTaskId(text)).toBe(false));
});

describe('names', () => {
  test('of roots: no two pairs of tag and id give one', () => {
    const tag = fc.stringMatching(/^[0-9a-f]{8}$/);
    fc.assert(
      fc.property(tag, tag, id, id, (tag1, tag2, id1, id2) => {
        const same = deriveRoot('/tmp', tag1, id1) === deriveRoot('/tmp', tag2, id2);
        expect(same).toBe(tag1 === tag2 && id1 === id2);
      }),
    );
    expect(deriveRoot('/', '01234567', 'a')).toBe('/fm-01234567-a');
    expect(gotmpOf('/tmp/fm-01234567-a')).toBe('/tmp/fm-01234567-a/gotmp');
  });

  test('in the state folder: no two ids share one, and none is the home-id', () => {
    const nasty = fc
      .oneof(
        id,
        id.map((text) => `${text.slice(0, 40)}.meta`),
        id.map((text) => `${text.slice(0, 40)}.meta.new`),
        fc.constantFrom('home-id', 'lock'),
      )
      .filter(isTaskId);
    fc.assert(
      fc.property(nasty, nasty, (one, other) => {
        fc.pre(one !== other);
        const { homeId, homeIdStaging, homeLock } = homePaths('/h');
        const all = [
          ...Object.values(taskPaths('/h/state', one)),
          ...Object.values(taskPaths('/h/state', other)),
          homeId,
          homeIdStaging,
          homeLock,
        ];
        expect(new Set(all).size).toBe(all.length);
      }),
    );
  });

  test('of records tell their id', () => {
    fc.assert(
      fc.property(id, (text) => {
        const name = (path: string) => path.slice('/s/'.length);
        const { record, removing, lock, staging } = taskPaths('/s', text);
        expect([record, removing, lock, staging].map((path) => recordId(name(path)))).toEqual([
          text,
          text,
          undefined,
          undefined,
        ]);
      }),
    );
  });
});

test('the tag depends on the home-id, the home and the user, each', () => {
  const [a, b] = ['0'.repeat(32), '1'.repeat(32)];
  const tags = [deriveTag(a, '/h', 0), deriveTag(b, '/h', 0), deriveTag(a, '/g', 0), deriveTag(a, '/h', 1)];
  expect(new Set(tags).size).toBe(4);
  for (const tag of tags) expect(tag).toMatch(/^[0-9a-f]{8}$/);
  expect(deriveTag(a, '/h', 0)).toBe(tags[0]);
  // Written down: another rule would orphan every root there is.
  expect(tags[0]).toBe('3a157bc2');
});

describe('settings', () => {
  test('of the home: option, FM_HOME, XDG_STATE_HOME, HOME', () => {
    const env = { FM_HOME: '/f', XDG_STATE_HOME: '/x', HOME: '/h' };
    expect(locateHome('/o', env)).toEqual({ source: '--home', path: '/o' });
    expect(locateHome(undefined, env)).toEqual({ source: 'FM_HOME', path: '/f' });
    expect(locateHome(undefined, { ...env, FM_HOME: undefined })).toEqual({
      source: 'XDG_STATE_HOME',
      path: '/x/task-spawn',
    });
    expect(locateHome(undefined, { HOME: '/h', XDG_STATE_HOME: '' })).toEqual({
      source: 'HOME',
      path: '/h/.local/state/task-spawn',
    });
    expect(locateHome('a/../b', {}).path).toBe(`${process.cwd()}/b`);
  });

  test('of the home are resolved as node:path does', () => {
    const part = fc.constantFrom('', '.', '..', '...', '.a', 'a', 'a.', 'a..b');
    const path = fc.array(part, { minLength: 1 }).map((parts) => parts.join('/'));
    fc.assert(
      fc.property(path, (text) => {
        fc.pre(text !== '');
        expect(locateHome(text, {}).path).toBe(resolve(text));
      }),
      { numRuns: 1000 },
    );
  });

  test('of the base: option, FM_TASK_TMP_BASE, /tmp, and never TMPDIR', () => {
    const env = { FM_TASK_TMP_BASE: '/b', TMPDIR: '/t' };
    expect(locateBase('/o', env).path).toBe('/o');
    expect(locateBase(undefined, env).path).toBe('/b');
    expect(locateBase(undefined, { TMPDIR: '/t' }).path).toBe('/tmp');
  });

  test.for(['', '~', '~/x', '/a\nb', '/a\0b', '/a\uFFFD', 'relative', './x'])('%j is no base', (path) => {
    expect(() => locateBase(path, {})).toThrow(/^--base /);
    expect(() => locateBase(undefined, { FM_TASK_TMP_BASE: path })).toThrow(/^FM_TASK_TMP_BASE /);
  });
});
