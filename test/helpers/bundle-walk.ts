/** Bundles walk.ts into one file that any user may run. */
import { chmod } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { build } from 'esbuild';
import fsExtra from 'fs-extra';

const { copy } = fsExtra;

export async function bundleWalk(folder: string): Promise<string> {
  const outfile = join(folder, 'walk', 'walk.cjs');
  // Where lib/crew.ts looks for it.
  const worker = join(folder, 'dist', 'remove-worker.cjs');
  await copy(new URL('../../dist/remove-worker.cjs', import.meta.url).pathname, worker);
  await build({
    entryPoints: [new URL('walk.ts', import.meta.url).pathname],
    bundle: true,
    platform: 'node',
    target: 'es2022',
    format: 'cjs',
    outfile,
    define: { 'import.meta.url': '__filename', 'import.meta.dirname': '__dirname' },
    logLevel: 'error',
  });
  for (const file of [outfile, worker]) {
    await chmod(dirname(file), 0o755);
    await chmod(file, 0o644);
  }
  return outfile;
}
