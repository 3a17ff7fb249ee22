/** Which machine, boot and pid namespace: design section 9, acceptance D06. */
import { describe, expect, test } from 'vitest';
import { comparePlace, type Machine, readMachine } from '../lib/machine.ts';

const INITIAL = '4026531836';
const ID = '0123456789abcdef0123456789abcdef';
const HERE: Machine = { host: `${ID} node`, boot_id: 'boot-1', pid_ns: INITIAL };

describe('comparePlace', () => {
  test.each([
    ['the same place', {}, {}, 'here'],
    ['the same container', { pid_ns: '7' }, { pid_ns: '7' }, 'here'],
    ['no machine-id, the same boot', { host: '- node' }, { host: '- node' }, 'here'],
    ['macOS, the same boot', { host: '- mac', pid_ns: '-' }, { host: '- mac', pid_ns: '-' }, 'here'],
    ['an earlier boot of this machine', { boot_id: 'boot-0' }, {}, 'past'],
    ['another pid namespace', { pid_ns: '7' }, {}, 'unknown'],
    ['seen from another pid namespace', {}, { pid_ns: '7' }, 'unknown'],
    ['another boot of a container', { boot_id: 'boot-0', pid_ns: '7' }, { pid_ns: '7' }, 'unknown'],
    ['another boot, recorded in a container', { boot_id: 'boot-0', pid_ns: '7' }, {}, 'unknown'],
    ['another boot, seen from a container', { boot_id: 'boot-0' }, { pid_ns: '7' }, 'unknown'],
    ['another node of the same image', { boot_id: 'boot-0', host: `${ID} other` }, {}, 'unknown'],
    ['another node of the same snapshot', { host: `${ID} other` }, {}, 'unknown'],
    ['another machine of the same name', { boot_id: 'boot-0', host: `${ID.replace('0', '1')} node` }, {}, 'unknown'],
    ['another boot, no machine-id', { boot_id: 'boot-0', host: '- node' }, { host: '- node' }, 'unknown'],
    [
      'another boot, an odd machine-id',
      { boot_id: 'boot-0', host: 'uninitialized node' },
      { host: 'uninitialized node' },
      'unknown',
    ],
    [
      'another boot on macOS',
      { boot_id: 'boot-0', host: '- mac', pid_ns: '-' },
      { host: '- mac', pid_ns: '-' },
      'unknown',
    ],
    ['no boot id recorded', { boot_id: '-' }, {}, 'unknown'],
    ['no boot id now', {}, { boot_id: '-' }, 'unknown'],
    ['no boot id on either side', { boot_id: '-' }, { boot_id: '-' }, 'unknown'],
  ] as const)('%s', (_, recorded, here, expected) => {
    expect(comparePlace({ ...HERE, ...recorded }, { ...HERE, ...here })).toBe(expected);
  });
});

test('readMachine gives what a record can hold, the same each time', () => {
  const machine = readMachine();
  expect(machine).toEqual(readMachine());
  expect(machine.host).toMatch(/^\S+ \S+$/);
  expect(machine.boot_id).toMatch(/^\S+$/);
  expect(machine.pid_ns).toMatch(/^(\d+|-)$/);
  expect(comparePlace(machine, machine)).toBe(machine.boot_id === '-' ? 'unknown' : 'here');
});
