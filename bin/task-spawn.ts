import { main } from '../lib/cli/spawn.ts';
import { runMain } from '../lib/main.ts';

void runMain('task-spawn', main, process.argv.slice(1));
