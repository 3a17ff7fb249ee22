/** The shells that a system may call /bin/sh: the shim must do the same under each. */
import { execFileSync } from 'node:child_process';
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { Sandbox } from './sandbox.ts';

export interface Shell {
  readonly name: string;
  /** The words before the script's path. */
  words(sandbox: Sandbox): string[];
}

/** Where a program is, or undefined. */
export function which(name: string): string | undefined {
  try {
    return execFileSync('/bin/sh', ['-c', 'command -v "$1"', 'sh', name], { encoding: 'utf8' }).trim();
  } catch {
    return undefined;
  }
}

const ALL: readonly (Shell & { readonly needs: string })[] = [
  { name: 'dash', needs: 'dash', words: () => ['dash'] },
  { name: 'bash --posix', needs: 'bash', words: () => ['bash', '--posix'] },
  {
    name: 'bash as sh',
    needs: 'bash',
    words: (sandbox) => {
      const link = join(sandbox.path, 'sh');
      if (!existsSync(link)) symlinkSync(which('bash') as string, link);
      return [link];
    },
  },
  { name: 'busybox sh', needs: 'busybox', words: () => ['busybox', 'sh'] },
];

/** Those that are installed. */
export const SHELLS: readonly Shell[] = ALL.filter(({ needs }) => which(needs) !== undefined);
