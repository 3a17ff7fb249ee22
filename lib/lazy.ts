/** What is needed seldom is loaded when it is: each builtin costs a millisecond or more at every start. */
import { createRequire } from 'node:module';

export const lazyRequire = createRequire(import.meta.url);
