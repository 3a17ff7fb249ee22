/**
 * Who is ended and who is spared: section 10 of the design, rule by rule, on tables made of rows. The last test takes each
 * rule out and sees that a row here would notice.
 */
import { describe, expect, test } from 'vitest';
import { judgeProcesses, RULES, type Rules } from '../lib/reap-rules.ts';
import type { ReapTarget, Self } from '../lib/reap-target.ts';
import { type Row, SELF, TARGET, tableOf } from './helpers/rows.ts';

type Expected = 'end' | 'spare' | 'inner' | 'untouched';

interface Case {
  readonly title: string;
  readonly rows: readonly Row[];
  /** Of process 10. */
  readonly is: Expected;
  readonly target?: Partial<ReapTarget>;
  readonly self?: Partial<Self>;
}

const STOP: Partial<ReapTarget> = { living: { pid: 5, start: '600' } };
const MAIN: Row = { pid: 5, ppid: 80, start: 600, session: 5, own: 'task', tty: '34816' };
const VISIT: Partial<ReapTarget> = { visitors: 'name' };
const REAP_VISITORS: Partial<ReapTarget> = { visitors: 'end' };
const TMUX: Row = { pid: 20, start: 700, name: 'tmux: server', argv: ['tmux'], own: 'task' };
const server = (name: string, ...argv: string[]): Row => ({ pid: 10, name, argv: [name, ...argv], own: 'task' });

const CASES: readonly Case[] = [
  // What is ended.
  { title: 'the token alone', rows: [{ pid: 10, own: 'task' }], is: 'end' },
  { title: 'the hold alone (env -i)', rows: [{ pid: 10, holds: true }], is: 'end' },
  { title: "the task's own terminal", rows: [{ pid: 10, own: 'task', tty: '34816' }], is: 'end' },
  { title: 'a token held twice', rows: [{ pid: 10, own: ['task', 'task'] }], is: 'end' },
  {
    title: '--stop: the command',
    rows: [{ ...MAIN, pid: 10 }],
    target: { living: { pid: 10, start: '600' } },
    is: 'end',
  },
  { title: '--stop: a descendant', rows: [MAIN, { pid: 9, ppid: 5 }, { pid: 10, ppid: 9 }], target: STOP, is: 'end' },
  {
    title: '--stop: a descendant in another terminal',
    rows: [MAIN, { pid: 10, ppid: 5, tty: '34820' }],
    target: STOP,
    is: 'end',
  },
  { title: '--stop: of the session that it leads', rows: [MAIN, { pid: 10, session: 5 }], target: STOP, is: 'end' },
  { title: 'a visitor with --reap-visitors', rows: [{ pid: 10, at: 'cwd' }], target: REAP_VISITORS, is: 'end' },
  {
    title: 'with the token it is no visitor',
    rows: [{ pid: 10, own: 'task', at: 'cwd', start: 1 }],
    target: VISIT,
    is: 'end',
  },
  { title: 'older than the tmux of the task', rows: [TMUX, { pid: 10, own: 'task', start: 699 }], is: 'end' },
  {
    title: 'younger than it, but with the hold',
    rows: [TMUX, { pid: 10, own: 'task', start: 701, holds: true }],
    is: 'end',
  },
  {
    title: 'in a tmux that was there before the task',
    rows: [
      { ...TMUX, own: undefined as never, start: 1 },
      { pid: 10, ppid: 20, own: 'task' },
    ],
    is: 'end',
  },
  { title: 'an ordinary ssh', rows: [server('ssh', 'host')], is: 'end' },
  { title: 'an ordinary emacs', rows: [server('emacs', '--batch')], is: 'end' },
  { title: 'an ordinary java', rows: [server('java', '-jar', 'x.jar')], is: 'end' },
  { title: 'an ordinary node', rows: [server('node', '/home/me/vscode.js')], is: 'end' },
  { title: 'a name that only begins like a server', rows: [server('tmuxinator')], is: 'end' },
  {
    title: 'another pipe',
    rows: [{ pid: 10, own: 'task', stdio: ['pipe:[8]', 'pipe:[9]', ''] }],
    is: 'end',
  },

  // What nothing ties to the task.
  { title: 'a neighbour', rows: [{ pid: 10 }], is: 'untouched' },
  { title: "a neighbour task's", rows: [{ pid: 10, own: 'task2' }], is: 'untouched' },
  { title: 'a visitor that nobody looks for', rows: [{ pid: 10, at: 'cwd' }], is: 'untouched' },
  { title: 'a dead one', rows: [{ pid: 10, own: 'task', dead: true }], is: 'untouched' },
  { title: 'a descendant of the command without --stop', rows: [MAIN, { pid: 10, ppid: 5 }], is: 'untouched' },
  {
    title: 'B11 a child of a reused pid',
    rows: [
      { ...MAIN, start: 601 },
      { pid: 10, ppid: 5, session: 5 },
    ],
    target: STOP,
    is: 'untouched',
  },
  {
    title: '--stop: of the session of a command that does not lead it',
    rows: [
      { ...MAIN, session: 80 },
      { pid: 10, session: 80 },
    ],
    target: STOP,
    is: 'untouched',
  },
  {
    title: 'a hold where the root is not proven (B14)',
    rows: [{ pid: 10, holds: true }],
    target: { root: undefined },
    is: 'untouched',
  },
  { title: 'an inner one that gave its token up', rows: [{ pid: 10, parent: 'task' }], is: 'untouched' },
  {
    title: 'a tmux that an inner task left behind',
    rows: [{ pid: 10, name: 'tmux: server', own: 'inner', parent: 'task' }],
    is: 'untouched',
  },
  {
    title: 'a pane of it',
    rows: [
      { pid: 20, name: 'tmux: server', own: 'inner', parent: 'task' },
      { pid: 10, ppid: 20, own: 'inner', parent: 'task' },
    ],
    is: 'untouched',
  },

  // Tasks inside it.
  { title: 'an inner task', rows: [{ pid: 10, own: 'inner', parent: 'task' }], is: 'inner' },
  {
    title: 'an inner task that inherited the hold',
    rows: [{ pid: 10, own: 'inner', parent: 'task', holds: true }],
    is: 'inner',
  },
  {
    title: 'an inner task in a pane of a tmux of the task',
    rows: [TMUX, { pid: 10, ppid: 20, start: 900, own: 'inner', parent: 'task' }],
    is: 'inner',
  },
  {
    title: 'an inner task that is a browser',
    rows: [{ pid: 10, name: 'firefox', session: 80, own: 'inner', parent: 'task' }],
    is: 'inner',
  },
  {
    title: '--stop: a child that is an inner task',
    rows: [MAIN, { pid: 10, ppid: 5, own: 'inner', parent: 'task' }],
    target: STOP,
    is: 'inner',
  },

  // What is spared although something ties it.
  { title: 'what we run in', rows: [{ pid: 10, own: 'task' }], self: { lineage: new Set([90, 10]) }, is: 'spare' },
  { title: 'pid 1', rows: [{ pid: 1, own: 'task' }], is: 'spare' },
  { title: 'tee behind us', rows: [{ pid: 10, own: 'task', stdio: ['pipe:[7]', '/dev/null', ''] }], is: 'spare' },
  {
    title: 'behind tee behind us',
    rows: [
      { pid: 10, own: 'task', stdio: ['pipe:[8]', '', ''] },
      { pid: 11, own: 'task', stdio: ['pipe:[7]', 'pipe:[8]', ''] },
    ],
    is: 'spare',
  },
  {
    title: 'in front of us',
    rows: [{ pid: 10, own: 'task', stdio: ['', 'pipe:[3]', ''] }],
    self: { stdio: ['pipe:[3]', '', ''] },
    is: 'spare',
  },
  { title: "another uid's", rows: [MAIN, { pid: 10, ppid: 5, uid: 0 }], target: STOP, is: 'spare' },
  { title: "another task's with our hold", rows: [{ pid: 10, own: 'other', holds: true }], is: 'spare' },
  { title: 'two tokens', rows: [{ pid: 10, own: ['task', 'other'] }], is: 'spare' },
  { title: 'another terminal', rows: [{ pid: 10, own: 'task', tty: '34820' }], is: 'spare' },
  {
    title: 'any terminal, of a held task',
    rows: [{ pid: 10, own: 'task', tty: '34816' }],
    target: { tty: '' },
    is: 'spare',
  },
  { title: 'a tmux server', rows: [{ ...TMUX, pid: 10 }], is: 'spare' },
  { title: 'a tmux server that only holds', rows: [{ pid: 10, name: 'tmux: server', holds: true }], is: 'spare' },
  {
    title: 'a pane of it',
    rows: [TMUX, { pid: 19, ppid: 20, holds: true }, { pid: 10, ppid: 19, holds: true }],
    is: 'spare',
  },
  { title: 'younger than it, by the token alone', rows: [TMUX, { pid: 10, own: 'task', start: 701 }], is: 'spare' },
  { title: 'born in the same tick', rows: [TMUX, { pid: 10, own: 'task', start: 700 }], is: 'spare' },
  {
    title: '--stop: a tmux server below the command',
    rows: [MAIN, { pid: 10, ppid: 5, name: 'tmux: server' }],
    target: STOP,
    is: 'spare',
  },
  { title: 'a program of config/reap-spare', rows: [server('my-server')], is: 'spare' },
  { title: 'one of its path', rows: [{ pid: 10, own: 'task', name: 'sh', argv: ['/opt/my-server'] }], is: 'spare' },
  { title: 'screen', rows: [{ pid: 10, own: 'task', name: 'screen', argv: ['SCREEN'] }], is: 'spare' },
  { title: 'zellij', rows: [server('zellij')], is: 'spare' },
  { title: 'ssh-agent', rows: [server('ssh-agent')], is: 'spare' },
  {
    title: 'an ssh master',
    rows: [{ pid: 10, own: 'task', name: 'ssh', argv: ['ssh: /home/me/.ssh/cm [mux]'] }],
    is: 'spare',
  },
  { title: 'gpg-agent', rows: [server('gpg-agent')], is: 'spare' },
  { title: 'dbus', rows: [server('dbus-daemon')], is: 'spare' },
  { title: 'an emacs daemon', rows: [server('emacs-29', '--daemon=x')], is: 'spare' },
  { title: 'adb', rows: [server('adb', 'fork-server')], is: 'spare' },
  {
    title: 'a gradle daemon',
    rows: [server('java', 'org.gradle.launcher.daemon.bootstrap.GradleDaemon')],
    is: 'spare',
  },
  { title: 'a kotlin daemon', rows: [server('java', 'org.jetbrains.kotlin.daemon.KotlinCompileDaemon')], is: 'spare' },
  { title: 'a bazel server', rows: [server('bazel(work)')], is: 'spare' },
  { title: 'a browser', rows: [server('chrome')], is: 'spare' },
  { title: 'firefox', rows: [server('firefox-bin')], is: 'spare' },
  { title: 'VS Code', rows: [server('node', '/home/me/.vscode-server/bin/x/out/server-main.js')], is: 'spare' },
  { title: 'a visitor', rows: [{ pid: 10, at: 'file' }], target: VISIT, is: 'spare' },
  {
    title: 'B10 the shell that calls, standing in the root',
    rows: [{ pid: 80, at: 'cwd' }],
    target: VISIT,
    is: 'spare',
  },
  ...(
    [
      ['a visitor with a terminal', { tty: '34816' }],
      ['a visitor older than the task', { start: 499 }],
      ['a visitor born with the task', { start: 500 }],
      ["a visitor of another task's", { own: 'other' }],
      ['a visitor with other mounts', { apart: true }],
      ["a visitor that is a tmux server, the user's own", { name: 'tmux: server' }],
    ] as const
  ).map(
    ([title, row]): Case => ({
      title: `--reap-visitors: ${title}`,
      rows: [{ pid: 10, at: 'cwd', ...row }],
      target: REAP_VISITORS,
      is: 'spare',
    }),
  ),
  {
    title: '--reap-visitors: of a task whose start cannot be compared',
    rows: [{ pid: 10, at: 'cwd' }],
    target: { ...REAP_VISITORS, since: undefined },
    is: 'spare',
  },
];

/** The process that a case is about. */
const subject = ({ rows }: Case) => rows.find(({ pid }) => pid === 10) ?? (rows[0] as Row);

function judge(each: Case, rules?: Rules): Expected {
  const judged = judgeProcesses(tableOf(each.rows), { ...TARGET, ...each.target }, { ...SELF, ...each.self }, rules);
  return judged.find(({ process }) => process.pid === subject(each).pid)?.verdict ?? 'untouched';
}

describe('judgeProcesses', () => {
  for (const each of CASES) {
    test(`${each.is}: ${each.title}`, () => {
      expect(judge(each)).toBe(each.is);
    });
  }

  test('what is spared has a reason and a remedy, what is ended has neither', () => {
    for (const each of CASES) {
      const judged = judgeProcesses(tableOf(each.rows), { ...TARGET, ...each.target }, { ...SELF, ...each.self });
      for (const { verdict, reason, remedy } of judged) {
        expect([verdict === 'spare', reason !== '', remedy !== '']).toEqual(Array(3).fill(verdict === 'spare'));
      }
    }
  });

  test('ourselves are never in it', () => {
    expect(
      judgeProcesses(tableOf([{ pid: 90, own: 'task', holds: true, at: 'cwd' }]), { ...TARGET, ...VISIT }, SELF),
    ).toEqual([]);
  });

  test('config/reap-spare is read only when something is tied to the task', () => {
    const self = { ...SELF, spare: () => expect.fail('it was read') as never };
    expect(judgeProcesses(tableOf([{ pid: 10 }, { pid: 11, own: 'x' }]), TARGET, self)).toEqual([]);
  });
});

describe('with any one rule taken out a case above fails', () => {
  const without = (list: readonly { readonly name: string }[], name: string) =>
    list.filter((rule) => rule.name !== name);
  const names = [...RULES.finders, ...RULES.sparers].map(({ name }) => name);
  test.each(names)('%s', (name) => {
    const rules = { finders: without(RULES.finders, name), sparers: without(RULES.sparers, name) } as unknown as Rules;
    expect(CASES.filter((each) => judge(each, rules) !== each.is).map(({ title }) => title)).not.toEqual([]);
  });
});
