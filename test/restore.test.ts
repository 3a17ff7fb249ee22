import { expect, test } from 'vitest';
import { compareEnvironments } from '../lib/restore.ts';

const compare = (given: string[], passed: string[], skipped: string[] = []) =>
  compareEnvironments({ given, passed }, new Set(skipped));

test('E10 an environment that arrives as it was needs nothing, in whatever order', () => {
  expect(compare(['A=1', 'B='], ['B=', 'A=1'])).toEqual({ unset: [], set: [] });
});

test('E10 what the shell adds is unset; what it drops or changes is set', () => {
  expect(compare(['A=1', 'a.b=x=y', 'SHLVL=7'], ['PWD=/', 'A=1', 'SHLVL=8'])).toEqual({
    unset: ['PWD'],
    set: ['a.b=x=y', 'SHLVL=7'],
  });
});

test('E10 of a name that stands twice the first counts', () => {
  expect(compare(['A=1', 'A=2'], ['A=2']).set).toEqual(['A=1']);
  expect(compare(['A=1', 'A=2'], ['A=1']).set).toEqual([]);
});

test('names that the plan or the shim sets are left alone, entries without a name or a "=" too', () => {
  expect(compare(['TMPDIR=/x', 'nothing', '=C:'], ['TMPDIR=', 'FM_HOME=/h'], ['TMPDIR', 'FM_HOME'])).toEqual({
    unset: [],
    set: [],
  });
});

test('where nothing can be read nothing is changed', () => {
  expect(compareEnvironments(undefined, new Set())).toEqual({ unset: [], set: [] });
});
