/** Letting go of the processor: node:timers/promises would be a module more at every start. */

/** The next turn of the event loop, in which signals are heard. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** Waits `ms` milliseconds. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
