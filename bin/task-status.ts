import { main } from '../lib/cli/status.ts';
import { runMain } from '../lib/main.ts';

void runMain('task-status', main, process.argv.slice(2));
