/**
 * Installs what the package ships, with its runtime dependencies and nothing else, where every user may read it: the
 * end-to-end tests run that, also as another uid, and would fail on a file that only a clone has.
 */
import { chmod } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { execa } from 'execa';
import fsExtra from 'fs-extra';
import { dir } from 'tmp-promise';
import type { TestProject } from 'vitest/node';

declare module 'vitest' {
  interface ProvidedContext {
    /** The installed package's folder. */
    readonly installed: string;
  }
}

const PROJECT = new URL('../..', import.meta.url).pathname.replace(/\/$/, '');

export default async function install(project: TestProject): Promise<() => Promise<void>> {
  const { path } = await dir({ prefix: 'task-spawn-test', keep: true });
  await chmod(path, 0o755);
  const { stdout } = await execa('npm', ['ls', '--omit=dev', '--all', '--parseable'], { cwd: PROJECT });
  const modules = stdout.split('\n').filter((line) => line.startsWith(`${PROJECT}/node_modules/`));
  const shipped = ['bin', 'dist', 'package.json', 'config.example'].map((name) => join(PROJECT, name));
  for (const source of [...shipped, ...modules]) await fsExtra.copy(source, join(path, relative(PROJECT, source)));
  await execa('chmod', ['-R', 'go=u-w', path]);
  project.provide('installed', path);
  return () => fsExtra.remove(path);
}
