/** Is it running? Unknown is never dead (design section 9). */
import { describe, expect, test, vi } from 'vitest';
import type { Machine } from '../lib/machine.ts';
import type * as Processes from '../lib/processes.ts';
import type { TaskRecord } from '../lib/record.ts';
import { describeVerdict, judgeTask } from '../lib/verdict.ts';

const probe = vi.hoisted(() => ({ gives: 'dead' as 'alive' | 'dead' | 'unreadable' }));

vi.mock('../lib/processes.ts', async (original) => ({
  ...(await original<typeof Processes>()),
  probeProcess: () => probe.gives,
}));

const HERE: Machine = { host: `${'a'.repeat(32)} node`, boot_id: 'boot', pid_ns: '4026531836' };
const RECORD = { ...HERE, id: 'a', token: 't', state: 'active', pid: '42', pid_start: '7' } as unknown as TaskRecord;
const CARRIER = { pid: 43, name: 'sleep', inner: false };

function judge(changes: Partial<TaskRecord>, gives: typeof probe.gives, carriers = [] as (typeof CARRIER)[]) {
  probe.gives = gives;
  const scan = vi.fn(() => carriers);
  return { verdict: judgeTask({ ...RECORD, ...changes }, HERE, scan), scans: scan.mock.calls.length };
}

describe('judgeTask', () => {
  test.each([
    ['its process lives', {}, 'alive', [CARRIER], 'running', 0],
    ['its process cannot be read', {}, 'unreadable', [], 'unknown', 0],
    ['it is dead, one with its token lives', {}, 'dead', [CARRIER], 'detached', 1],
    ['it is dead', {}, 'dead', [], 'dead', 1],
    ['held, nobody has its token', { state: 'held', pid: '' }, 'alive', [], 'held', 1],
    ['held, one with its token lives', { state: 'held', pid: '' }, 'alive', [CARRIER], 'detached', 1],
    ['another pid namespace, its pid dead here', { pid_ns: '1' }, 'dead', [], 'unknown', 0],
    ['another host', { host: `${'b'.repeat(32)} node` }, 'dead', [], 'unknown', 0],
    ['an earlier boot, though the pid lives now', { boot_id: 'before' }, 'alive', [CARRIER], 'dead', 0],
    ['held in an earlier boot', { boot_id: 'before', state: 'held', pid: '' }, 'dead', [], 'dead', 0],
  ] as const)('%s', (_, changes, gives, carriers, is, scans) => {
    const { verdict, scans: scanned } = judge(changes as Partial<TaskRecord>, gives, [...carriers]);
    expect([verdict.is, scanned]).toEqual([is, scans]);
  });
});

describe('describeVerdict', () => {
  test('names the pid, the processes, the host', () => {
    expect(describeVerdict({ is: 'running', pid: 42 })).toContain('pid 42');
    const carriers = Array.from({ length: 8 }, (_, index) => ({ ...CARRIER, pid: 100 + index }));
    expect(describeVerdict({ is: 'detached', carriers, held: false })).toMatch(
      /100 \(sleep\).*104 \(sleep\) and 3 more$/,
    );
    const { verdict } = judge({ host: 'x other' }, 'dead');
    expect(verdict.is === 'unknown' && describeVerdict(verdict)).toContain('x other');
  });
});
