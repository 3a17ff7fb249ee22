/** Waiting on a condition, never on the clock. */
import { setTimeout as sleep } from 'node:timers/promises';

/** The first value that is neither undefined nor false. Gives up after `ms`, which is for what hangs, not for what is slow. */
export async function until<T>(what: string, look: () => T | Promise<T>, ms = 60_000): Promise<NonNullable<T>> {
  for (const end = Date.now() + ms; ; ) {
    const value = await look();
    if (value !== undefined && value !== null && value !== false) return value as NonNullable<T>;
    if (Date.now() > end) throw new Error(`waited ${ms} ms in vain until ${what}`);
    await sleep(10);
  }
}
