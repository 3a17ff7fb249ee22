/** A process that exchanges the folders d0, d1, … of a root with the links l0, l1, … beside them, as fast as it can (B37). */
import { execa } from 'execa';
import { until } from './until.ts';

const PROGRAM = [
  'import ctypes, sys',
  'libc = ctypes.CDLL(None)',
  'pairs = [("%s/d%d" % (sys.argv[1], i), "%s/l%d" % (sys.argv[1], i)) for i in range(int(sys.argv[2]))]',
  'pairs = [(a.encode(), b.encode()) for a, b in pairs]',
  'print("ready", flush=True)',
  'done = 0',
  'while True:',
  '  for a, b in pairs:',
  '    if libc.renameat2(-100, a, -100, b, 2) == 0:',
  '      done += 1',
  '      if done == 500: print("busy", flush=True)',
].join('\n');

/** Runs `work` meanwhile. @throws Error unless folders were exchanged indeed */
export async function whileExchanging(root: string, folders: number, work: () => Promise<void>): Promise<void> {
  const racer = execa('python3', ['-c', PROGRAM, root, String(folders)], { reject: false });
  let heard = '';
  racer.stdout?.on('data', (data) => {
    heard += data;
  });
  try {
    await until('the exchanging process is ready', () => heard.includes('ready'));
    await work();
    if (!heard.includes('busy')) throw new Error('nothing was exchanged meanwhile');
  } finally {
    racer.kill('SIGKILL');
    await racer;
  }
}
