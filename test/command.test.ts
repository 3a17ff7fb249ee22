import { chmodSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { dirSync } from 'tmp-promise';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { findCommand } from '../lib/command.ts';
import { isRoot } from './helpers/sandbox.ts';

const { name: folder, removeCallback } = dirSync({ tmpdir: '/tmp', prefix: 'tsc', unsafeCleanup: true });
const at = (name: string) => join(folder, name);
const make = (name: string, text: string | Buffer = '', mode = 0o755) => {
  writeFileSync(at(name), text);
  chmodSync(at(name), mode);
};
const NOT_FOUND = { code: 'COMMAND_NOT_FOUND' };
const NOT_RUNNABLE = { code: 'COMMAND_NOT_RUNNABLE' };
const refused = (name: string, path?: string) => {
  try {
    return findCommand(name, path);
  } catch (error) {
    return error;
  }
};

beforeAll(() => {
  for (const name of ['one', 'two', 'one/both', 'shut']) mkdirSync(at(name));
  make('one/tool', '', 0o644);
  make('two/tool');
  make('two/both');
  make('one/text', 'no first line', 0o644);
  make('empty');
  symlinkSync('loop', at('loop'));
  symlinkSync('nowhere', at('dangling'));
  symlinkSync('two/tool', at('link'));
});
afterAll(() => removeCallback());

describe('B77 where a command is found', () => {
  const path = `${folder}/one::${folder}/two`;

  test('the first on PATH that can be executed, past files and folders that cannot', () => {
    expect(findCommand('tool', path)).toEqual({ file: `${folder}/two/tool` });
    expect(findCommand('both', path)).toEqual({ file: `${folder}/two/both` });
  });

  test('a name with a slash is itself; an empty element of PATH is the current directory', () => {
    expect(findCommand(at('link'), undefined)).toEqual({ file: at('link') });
    expect(refused('package.json', '/bin')).toMatchObject(NOT_FOUND);
    expect(refused('package.json', '/bin:')).toMatchObject(NOT_RUNNABLE);
  });

  test('without PATH the usual folders are searched', () => {
    expect(findCommand('sh', undefined).file).toMatch(/^\/(usr\/)?bin\/sh$/);
  });

  test('127 for what is not there, 126 for what is there and cannot be run', () => {
    for (const name of ['', 'no-such', at('no-such'), at('dangling'), at('empty/below')])
      expect(refused(name, path)).toMatchObject(NOT_FOUND);
    for (const name of ['text', at('one/tool'), folder, at('loop')])
      expect(refused(name, path)).toMatchObject(NOT_RUNNABLE);
  });

  test.skipIf(isRoot)('126 for what cannot be looked at', () => {
    chmodSync(at('shut'), 0);
    expect(refused(at('shut/tool'))).toMatchObject(NOT_RUNNABLE);
  });

  test('a name is bytes', () => {
    writeFileSync(Buffer.from(at('\xff\xfe'), 'latin1'), '', { mode: 0o755 });
    expect(findCommand('\xff\xfe', folder)).toEqual({ file: at('\xff\xfe') });
    expect(refused('\xff', folder)).toMatchObject({ message: expect.not.stringContaining('\n') });
  });
});

describe('B77 the interpreter of a script', () => {
  test.for([
    ['#!/bin/sh\n', true],
    ['#! /bin/sh -e\n', true],
    ['#!\t/bin/sh', true],
    ['#!\n', true],
    ['', true],
    ['\x7fELF', true],
    ['#!/no/such\n', false],
    ['#!/bin/sh\r\n', false],
    ['#!/tmp\n', false],
  ] as const)('%j: %s', ([text, runs]) => {
    make('script', text);
    if (runs) expect(findCommand(at('script'), undefined)).toEqual({ file: at('script') });
    else
      expect(refused(at('script'))).toMatchObject({ ...NOT_RUNNABLE, message: expect.stringContaining('interpreter') });
  });

  test('may be a script itself, and a ring of them ends', () => {
    make('inner', '#!/no/such\n');
    make('outer', `#!${at('inner')}\n`);
    expect(refused(at('outer'))).toMatchObject({ message: expect.stringContaining('/no/such') });
    make('ring', `#!${at('ring')}\n`);
    expect(refused(at('ring'))).toBeDefined();
  });
});
