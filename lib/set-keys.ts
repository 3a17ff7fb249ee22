/** `task-spawn --set` without a command: keys of others in a record, changed under the lock. */
import { TaskError } from './errors.ts';
import { openHome } from './home.ts';
import type { SpawnContext, SpawnRequest } from './launch.ts';
import { applySettings, formatEntries } from './record.ts';
import { publishRecord, readRecord, replaceRecord } from './record-file.ts';
import { describeDistrust, withTaskLock } from './task.ts';

/** `--set` without a command: changes keys of a record that are not ours, under the lock. @throws TaskError */
export async function setKeys(
  context: SpawnContext,
  request: Pick<SpawnRequest, 'id' | 'home' | 'settings' | 'lockWaitMs'>,
): Promise<void> {
  const { id, settings } = request;
  const nothing = new TaskError('USAGE', `the task ${id} has no record to set keys in: spawn it first`);
  const home = openHome(request.home, context.uid, true);
  if (!home) throw nothing;
  await withTaskLock(home, id, { ms: request.lockWaitMs, beat: context.trap.beat }, async () => {
    const reading = readRecord(home, id);
    switch (reading.kind) {
      case 'none':
        throw nothing;
      case 'unreadable':
      case 'moved':
        throw new TaskError('RECORD', describeDistrust(home, id, reading));
      case 'notes':
        replaceRecord(home, id, formatEntries(applySettings(reading.entries, settings)));
        return;
      case 'task':
        publishRecord(home, { ...reading.record, extra: applySettings(reading.record.extra, settings) });
    }
  });
}
