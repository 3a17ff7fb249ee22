#!/usr/bin/env zx
// The main job on real input: this very package is built and packed as a task. Its scratch is seen in the task's root,
// and is gone after the teardown. Run by `npm run demo` and by test/e2e/demo.test.ts.
import { $, echo, tmpdir } from 'zx';

const home = tmpdir();
$.env = { ...process.env, FM_HOME: home, PATH: `${process.cwd()}/bin:${process.env.PATH}` };
$.quiet = true;

const build = `
  cp -R bin lib package.json tsconfig.json "$FM_TASK_TMP"
  ln -s "$PWD/node_modules" "$FM_TASK_TMP/node_modules"
  cd "$FM_TASK_TMP" && npm pack --silent
`;

try {
  echo('$ task-spawn --pin demo -- sh -c "<copy this package to $FM_TASK_TMP, build and pack it there>"');
  echo(await $`task-spawn --pin demo -- sh -c ${build}`);
  echo('$ task-status');
  echo(await $`task-status`);
  const root = (await $`task-status --json`.json()).tasks[0].root;
  echo(`$ ls ${root}`);
  echo(await $`ls ${root}`);
  echo('$ task-teardown demo');
  echo((await $`task-teardown demo`).stderr);
  echo((await $({ nothrow: true })`ls -d ${root}`).stderr);
} finally {
  await $({ nothrow: true })`task-teardown --stop demo`;
  await $`rm -rf -- ${home}`;
}
