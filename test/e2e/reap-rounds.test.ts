/** Many rounds of tasks that leak: no leak is left, no bystander is missing, counted before and after (issue, point 10 of 10). */
import { readdir } from 'node:fs/promises';
import { expect } from 'vitest';
import { test } from '../helpers/fast.ts';
import { eachOf } from '../helpers/pool.ts';
import { isAlive } from '../helpers/tasks.ts';
import { ARTISTS, awaitSleep, ownSleep, QUIET, sleepers } from '../helpers/zoo.ts';

const ROUNDS = 200;
/** So many tasks go by one command: most of a round would be the start of Node. */
const BATCH = 4;

test(`${ROUNDS} rounds of spawn and teardown leave no leak and end no bystander`, async ({ sandbox }) => {
  // A task whose id begins alike, one that mentions its token, one that stands in the base.
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
  const rounds = Array.from({ length: ROUNDS / BATCH }, (_, batch) => batch * BATCH);
  await eachOf(rounds, 3, async (first) => {
    const ids = Array.from({ length: BATCH }, (_, index) => `r${first + index}`);
    for (const [index, id] of ids.entries()) {
      const artist = quick[(first + index) % quick.length] as (typeof quick)[0];
      // All of the batch say this, and no other batch.
      const mine = `${leak.line}${first}.5`;
      await sandbox.finished(id, `setsid ${mine} ${QUIET} & ${artist.line.replaceAll('SLEEP', mine)}`);
    }
    const { status, stdout, stderr } = await sandbox.teardown(['--json', '--grace-period', '0.1', ...ids]);
    expect({ ids, status, stderr }).toMatchObject({ status: 0 });
    for (const { processes = [] } of JSON.parse(stdout).tasks) reaped += processes.length;
    expect({ ids, left: sleepers({ ...leak, length: `${leak.length}${first}.5` }) }).toEqual({ ids, left: [] });
  });
  expect(sleepers(leak)).toEqual([]);
  expect(reaped).toBeGreaterThanOrEqual(ROUNDS);
  expect(before.map(isAlive)).toEqual([true, true, true]);
  expect(await Promise.all(bystanders.map(awaitSleep))).toEqual(before);
  expect(await readdir(sandbox.base)).toHaveLength(1);
  expect((await sandbox.teardown(['--stop', 'r'])).status).toBe(0);
  for (const each of started) each.kill('SIGKILL');
  await Promise.all(started);
});
