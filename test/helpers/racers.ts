/** Processes of test/fixtures/racer.ts, built once for each test. */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { build } from 'esbuild';
import { inject } from 'vitest';
import type { Answer, Job } from '../fixtures/racer.ts';

export class Racer {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor(program: string) {
    this.#child = spawn(process.execPath, [program], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface(this.#child.stdout as NodeJS.ReadableStream)[Symbol.asyncIterator]();
  }

  async do(job: Job): Promise<Answer> {
    this.#child.stdin?.write(`${JSON.stringify(job)}\n`);
    return JSON.parse((await this.#lines.next()).value);
  }

  end(): void {
    this.#child.stdin?.end();
  }
}

/** Calls `race` with two racers. */
export async function withRacers(race: (one: Racer, other: Racer) => Promise<void>): Promise<void> {
  // Beside the installed package, whose dependencies it then finds.
  const program = join(inject('installed'), `racer-${randomBytes(8).toString('hex')}.mjs`);
  await build({
    entryPoints: [new URL('../fixtures/racer.ts', import.meta.url).pathname],
    bundle: true,
    platform: 'node',
    format: 'esm',
    packages: 'external',
    outfile: program,
  });
  const racers = [new Racer(program), new Racer(program)] as const;
  try {
    await race(...racers);
  } finally {
    for (const racer of racers) racer.end();
    await rm(program);
  }
}
