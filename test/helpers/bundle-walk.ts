/** Bundles walk.ts into one file that any user may run. */
import { chmod } from 'node:fs/promises';
import { join } from 'node:path';
import { build } from 'esbuild';

export async function bundleWalk(folder: string): Promise<string> {
  const outfile = join(folder, 'walk.cjs');
  await build({
    entryPoints: [new URL('walk.ts', import.meta.url).pathname],
    bundle: true,
    platform: 'node',
    target: 'es2022',
    format: 'cjs',
    outfile,
    define: { 'import.meta.url': '__filename' },
    logLevel: 'error',
  });
  await chmod(outfile, 0o644);
  return outfile;
}
