/** Many rounds of tasks that leak: no leak is left, no bystander is missing, counted before and after (issue, point 10 of 10). */
import { readdir } from 'node:fs/promises';
import { expect } from 'vitest';
import { test } from '../helpers/fast.ts';
import { eachOf } from '../helpers/pool.ts';
import { isAlive } from '../helpers/tasks.ts';
import { ARTISTS, awaitSleep, ownSleep, QUIET, sleepers } from '../helpers/zoo.ts';

const ROUNDS = 200;

test(`${ROUNDS} rounds of spawn and teardown leave no leak and end no bystander`, async ({ sandbox }) => {
  // A neighbour task whose id begins alike, one that mentions its token, one in the base, and an inherited nothing.
  const bystanders = [ownSleep(), ownSleep(), ownSleep()];
  const [neighbour, mention, place] = bystanders as [
    (typeof bystanders)[0],
    (typeof bystanders)[0],
    (typeof bystanders)[0],
  ];
  const started = [sandbox.start('task-spawn', ['r', '--', ...neighbour.line.split(' ')], { stdio: 'ignore' })];
  await awaitSleep(neighbour);
  const token = (await sandbox.record('r'))?.token as string;
  started.push(sandbox.start('sh', ['-c', `NOTE=FM_TASK_TOKEN=${token} exec ${mention.line}`]));
  started.push(sandbox.start('sh', ['-c', `cd ${sandbox.base} && exec ${place.line}`]));
  const before = await Promise.all(bystanders.map(awaitSleep));
  // Those that take a python each are for reap.test.ts.
  const quick = ARTISTS.filter(({ line }) => !line.includes('python3'));
  const leak = ownSleep();
  let reaped = 0;
  await eachOf(
    Array.from({ length: ROUNDS }, (_, round) => round),
    3,
    async (round) => {
      const artist = quick[round % quick.length] as (typeof quick)[0];
      const mine = { length: `${leak.length}${round}`, line: `${leak.line}${round}` };
      const id = `r${round}`;
      await sandbox.finished(
        id,
        `setsid ${mine.line}.5 ${QUIET} & ${artist.line.replaceAll('SLEEP', `${mine.line}.5`)}`,
      );
      const { status, stdout, stderr } = await sandbox.teardown(['--json', '--grace-period', '0.1', id]);
      expect({ round, status, stderr }).toMatchObject({ status: 0 });
      reaped += JSON.parse(stdout).tasks[0].processes?.length ?? 0;
      expect({ round, left: sleepers({ ...mine, length: `${mine.length}.5` }) }).toEqual({ round, left: [] });
    },
  );
  expect(sleepers(leak)).toEqual([]);
  expect(reaped).toBeGreaterThanOrEqual(ROUNDS);
  expect(before.map(isAlive)).toEqual([true, true, true]);
  expect(await Promise.all(bystanders.map(awaitSleep))).toEqual(before);
  expect(await readdir(sandbox.base)).toHaveLength(1);
  expect((await sandbox.teardown(['--stop', 'r'])).status).toBe(0);
  for (const each of started) each.kill('SIGKILL');
  await Promise.all(started);
});
