/** What a disk can do to a record: errnos put in through lib/fs.ts. */
import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, describe, expect, vi } from 'vitest';
import type { Home } from '../lib/home.ts';
import type { TaskRecord } from '../lib/record.ts';
import {
  clearStaging,
  dropRecord,
  listRecordIds,
  publishRecord,
  readRecord,
  renameToRemoving,
} from '../lib/record-file.ts';
import { type Sandbox, test } from './helpers/sandbox.ts';

/** The calls that fail, each with its errno, at its how-many-eth call from now. */
const faults = vi.hoisted(() => new Map<string, { errno: string; at: number }>());

vi.mock('../lib/fs.ts', async (original) => {
  const real = await original<Record<string, unknown>>();
  const failing = ['writeSync', 'fsyncSync', 'renameSync', 'fchmodSync', 'openSync'].map((name) => [
    name,
    (...args: unknown[]) => {
      const fault = faults.get(name);
      if (fault && --fault.at === 0)
        throw Object.assign(new Error(`${fault.errno}: no luck, ${name}`), { code: fault.errno });
      return (real[name] as (...all: unknown[]) => unknown)(...args);
    },
  ]);
  return { ...real, ...Object.fromEntries(failing) };
});

beforeEach(() => faults.clear());

function makeHome(sandbox: Sandbox): Home {
  const state = join(sandbox.path, 'state');
  mkdirSync(state);
  return { path: sandbox.path, state, config: join(sandbox.path, 'config'), uid: 0, tag: '01234567' };
}

const recordOf = (home: Home): TaskRecord => ({
  schema: '1',
  id: 'x',
  token: '0'.repeat(32),
  spawn_gen: '1'.repeat(32),
  state: 'creating',
  created_at: '2026-01-01T00:00:00.000Z',
  home: home.path,
  base: '/tmp',
  base_dev: '1',
  base_ino: '2',
  tasktmp: '/tmp/fm-01234567-x',
  tmp_dev: '',
  tmp_ino: '',
  tmp_btime: '',
  tmpdir_pin: '0',
  host: '- n',
  boot_id: '-',
  pid_ns: '-',
  pid: '1',
  pid_start: '2',
  tty_nr: '0',
  command: '"true"',
  extra: [],
});

describe('a record whose replacement fails', () => {
  test.for([
    ['openSync', 'ENOSPC', 1],
    ['fchmodSync', 'EIO', 1],
    ['writeSync', 'ENOSPC', 1],
    ['writeSync', 'EDQUOT', 1],
    ['fsyncSync', 'EIO', 1],
    ['fsyncSync', 'ENOSPC', 1],
    ['renameSync', 'ENOSPC', 1],
  ] as const)('at %s with %s stands, and the next one works', ([call, errno, at], { sandbox }) => {
    const home = makeHome(sandbox);
    publishRecord(home, recordOf(home));
    const before = readFileSync(join(home.state, 'x.meta'));
    faults.set(call, { errno, at });
    const next: TaskRecord = { ...recordOf(home), state: 'active' };
    expect(() => publishRecord(home, next)).toThrow(
      expect.objectContaining({ code: 'IO', message: expect.stringContaining(errno) }),
    );
    expect(readFileSync(join(home.state, 'x.meta'))).toEqual(before);
    if (call !== 'renameSync') expect(readdirSync(home.state)).toEqual(['x.meta']);
    faults.clear();
    clearStaging(home, 'x');
    publishRecord(home, next);
    expect(readRecord(home, 'x')).toMatchObject({ kind: 'task', record: { state: 'active' } });
    expect(readdirSync(home.state)).toEqual(['x.meta']);
  });

  test('at the last fsync says so, and what stands is whole', ({ sandbox }) => {
    const home = makeHome(sandbox);
    faults.set('fsyncSync', { errno: 'EIO', at: 2 });
    expect(() => publishRecord(home, recordOf(home))).toThrow(expect.objectContaining({ code: 'IO' }));
    expect(readRecord(home, 'x').kind).toBe('task');
  });

  test('on a file system that cannot fsync a folder is no failure', ({ sandbox }) => {
    const home = makeHome(sandbox);
    faults.set('fsyncSync', { errno: 'EINVAL', at: 2 });
    publishRecord(home, recordOf(home));
    expect(readRecord(home, 'x').kind).toBe('task');
  });
});

describe('the staging name', () => {
  test('is never written through: a leftover is in the way until it is cleared under the lock', ({ sandbox }) => {
    const home = makeHome(sandbox);
    const target = join(sandbox.path, 'target');
    writeFileSync(target, 'theirs');
    symlinkSync(target, join(home.state, 'x.meta.new'));
    expect(() => publishRecord(home, recordOf(home))).toThrow('EEXIST');
    clearStaging(home, 'x');
    clearStaging(home, 'x');
    publishRecord(home, recordOf(home));
    expect(readFileSync(target, 'latin1')).toBe('theirs');
    expect(lstatSync(join(home.state, 'x.meta')).mode & 0o7777).toBe(0o600);
  });

  test('is not a record', ({ sandbox }) => {
    const home = makeHome(sandbox);
    writeFileSync(join(home.state, 'x.meta.new'), 'schema=1\n');
    expect(readRecord(home, 'x')).toEqual({ kind: 'none' });
    expect(listRecordIds(home.state)).toEqual([]);
  });
});

describe('the name that means removing', () => {
  test('says so whatever the text says, and is listed', ({ sandbox }) => {
    const home = makeHome(sandbox);
    publishRecord(home, { ...recordOf(home), state: 'active' });
    renameToRemoving(home, 'x');
    renameToRemoving(home, 'x');
    expect(readdirSync(home.state)).toEqual(['x.meta.removing']);
    expect(readRecord(home, 'x')).toMatchObject({ kind: 'task', record: { state: 'removing' } });
    expect(listRecordIds(home.state)).toEqual(['x']);
  });

  test('goes when a record is published, and counts for nothing beside one', ({ sandbox }) => {
    const home = makeHome(sandbox);
    publishRecord(home, { ...recordOf(home), state: 'active' });
    writeFileSync(join(home.state, 'x.meta.removing'), 'rubbish');
    expect(readRecord(home, 'x')).toMatchObject({ kind: 'task', record: { state: 'active' } });
    publishRecord(home, { ...recordOf(home), state: 'active' });
    expect(readdirSync(home.state)).toEqual(['x.meta']);
  });

  test('goes with the record', ({ sandbox }) => {
    const home = makeHome(sandbox);
    publishRecord(home, recordOf(home));
    renameToRemoving(home, 'x');
    dropRecord(home, 'x');
    dropRecord(home, 'x');
    expect(existsSync(join(home.state, 'x.meta.removing'))).toBe(false);
  });
});

test('what announced a root keeps its birth through rewrites', ({ sandbox }) => {
  const home = makeHome(sandbox);
  publishRecord(home, recordOf(home));
  const { dev, birthtimeNs } = lstatSync(join(home.state, 'x.meta'), { bigint: true });
  for (let rewrite = 0; rewrite < 3; rewrite++) {
    const reading = readRecord(home, 'x');
    if (reading.kind !== 'task') throw new Error(reading.kind);
    expect(reading.birth).toEqual({ dev, btime: birthtimeNs });
    publishRecord(home, { ...reading.record, state: 'leftover' });
  }
});
