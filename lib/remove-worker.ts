/** A further walker of a removal, in a thread of its own (crew.ts starts it): takes parts until it is dismissed. */
import { workerData } from 'node:worker_threads';
import { CrewBoard } from './crew-board.ts';
import { Walk } from './walk.ts';

/** What crew.ts passes to it. */
export interface WorkerData {
  readonly memory: SharedArrayBuffer;
  readonly place: number;
  readonly root: string;
  readonly uid: number;
  readonly prefix: string;
}

/** Entries between two reports to the tally. */
const REPORT = 256;

const { memory, place, root, uid, prefix } = workerData as WorkerData;
Error.stackTraceLimit = 0;
const board = new CrewBoard(memory);
board.enlist(place);
while (board.block(place)) {
  work();
  board.done(place);
}

/** Does the part that was given. What cannot go, or goes wrong, is met again, and told, by the walk that comes last. */
function work(): void {
  const part = board.take(place);
  if (!part) return;
  const walk = new Walk({ root, uid, prefix, sharing: board.sharing });
  try {
    walk.enterPart(part.fd, part.entries);
    for (let steps = 1; !walk.isDone && !board.isStopped; steps++) {
      walk.step();
      if (steps % REPORT === 0) board.count(walk.takeCount().entries);
    }
  } catch {
    // See above.
  } finally {
    board.count(walk.takeCount().entries);
    walk.close();
  }
}
