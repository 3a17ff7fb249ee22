import { main } from '../lib/cli/teardown.ts';
import { runMain } from '../lib/main.ts';

void runMain('task-teardown', main, process.argv.slice(2));
