import { main } from '../lib/cli/rm.ts';
import { runMain } from '../lib/main.ts';

void runMain('task-spawn', main, process.argv.slice(2));
