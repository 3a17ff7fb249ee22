/** What is needed seldom is loaded when it is: each builtin costs a millisecond or more at every start. */
import { createRequire } from 'node:module';

let made: NodeJS.Require | undefined;

export function lazyRequire(name: string): unknown {
  made ??= createRequire(import.meta.url);
  return made(name);
}
