/** Which machine, boot and pid namespace this is: what a recorded pid means only together with. */
import { readFileSync, readlinkSync } from './fs.ts';
import { lazyRequire } from './lazy.ts';
import { runTool } from './tool.ts';

export interface Machine {
  /** machine-id and node name, parted by a space; "-" for a machine-id that is not known. */
  readonly host: string;
  /** Random, new at each boot; "-" when not known, and then nothing is ever proved by it. */
  readonly boot_id: string;
  /** The pid namespace's inode; "-" where there are none. */
  readonly pid_ns: string;
}

/** The inode of the kernel's first pid namespace (PROC_PID_INIT_INO). */
const INITIAL_PID_NS = '4026531836';

export function readMachine(): Machine {
  const text = (read: () => string) => {
    try {
      return read().trim().replaceAll(/\s+/g, '-') || '-';
    } catch {
      return '-';
    }
  };
  const machine = text(() => readFileSync('/etc/machine-id', 'latin1'));
  if (process.platform === 'darwin') {
    const { hostname } = lazyRequire('node:os') as typeof import('node:os');
    const session = () => runTool('/usr/sbin/sysctl', ['-n', 'kern.bootsessionuuid']);
    return { host: `${machine} ${text(hostname)}`, boot_id: text(session), pid_ns: '-' };
  }
  return {
    // What uname(2) gives: the node name of this UTS namespace.
    host: `${machine} ${text(() => readFileSync('/proc/sys/kernel/hostname', 'latin1'))}`,
    boot_id: text(() => readFileSync('/proc/sys/kernel/random/boot_id', 'latin1')),
    pid_ns: text(() => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '-'),
  };
}

/**
 * How a recorded place relates to this one: 'here' (pids mean the same), 'past' (an earlier boot of this very machine:
 * everything of then is dead), 'unknown' (another host, container or pid namespace: nothing is proved). Machine-ids are
 * baked into images and boot ids into snapshots of machines, so the node name counts too, and 'past' also asks for the
 * initial pid namespace on both sides.
 */
export function comparePlace(recorded: Machine, here: Machine): 'here' | 'past' | 'unknown' {
  if (recorded.boot_id === '-' || here.boot_id === '-' || recorded.host !== here.host) return 'unknown';
  if (recorded.boot_id === here.boot_id) return recorded.pid_ns === here.pid_ns ? 'here' : 'unknown';
  const initial = recorded.pid_ns === INITIAL_PID_NS && here.pid_ns === INITIAL_PID_NS;
  return initial && /^[0-9a-f]{32} /.test(here.host) ? 'past' : 'unknown';
}
