/** An interactive shell on a real pseudo-terminal, driven by python3's pty module. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { execa } from 'execa';
import type { Sandbox } from './sandbox.ts';
import { until } from './until.ts';

/** Relays bytes; each line on descriptor 3 is a new window size. Ends when the shell does. */
const BRIDGE = `
import fcntl, os, pty, select, struct, sys, termios
pid, terminal = pty.fork()
if pid == 0:
    os.close(3)
    os.execvp(sys.argv[1], sys.argv[1:])
sources = [0, 3, terminal]
while True:
    for fd in select.select(sources, [], [])[0]:
        try:
            data = os.read(fd, 65536)
        except OSError:
            data = b''
        if fd == terminal:
            if not data: sys.exit()
            os.write(1, data)
        elif not data:
            sources.remove(fd)
            if fd == 0: sys.exit()
        elif fd == 0:
            os.write(terminal, data)
        else:
            for line in data.splitlines():
                rows, columns = map(int, line.split())
                fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
`;

export class Terminal {
  readonly #bridge;
  #seen = '';
  #read = 0;

  /** Starts an interactive bash in the sandbox; its prompt is "ready> ". */
  constructor(sandbox: Sandbox) {
    const rc = join(sandbox.path, 'bashrc');
    writeFileSync(rc, "PS1='ready> '; unset HISTFILE\n");
    const env = { ...sandbox.env, TERM: 'dumb' };
    this.#bridge = execa('python3', ['-c', BRIDGE, 'bash', '--rcfile', rc, '-i'], {
      cwd: sandbox.path,
      env: env as Record<string, string>,
      extendEnv: false,
      reject: false,
      buffer: false,
      stdio: ['pipe', 'pipe', 'inherit', 'pipe'],
    });
    this.#bridge.stdout.on('data', (data) => {
      this.#seen += String(data);
    });
  }

  /** What a person's keys send. */
  type(text: string): void {
    this.#bridge.stdin.write(text);
  }

  /** Types a line and ends it with Enter. */
  enter(line: string): void {
    this.type(`${line}\n`);
  }

  resize(rows: number, columns: number): void {
    (this.#bridge.stdio[3] as unknown as NodeJS.WritableStream).write(`${rows} ${columns}\n`);
  }

  /** Waits until the terminal shows this after what was waited for before; gives what stood between, too. */
  async shows(pattern: RegExp): Promise<string> {
    return until(
      `the terminal shows ${pattern}`,
      () => {
        const found = pattern.exec(this.#seen.slice(this.#read));
        if (!found) return undefined;
        const start = this.#read;
        this.#read += found.index + found[0].length;
        return this.#seen.slice(start, this.#read);
      },
      30_000,
    ).catch((error) => {
      throw new Error(`${error.message}; it shows ${JSON.stringify(this.#seen)}`);
    });
  }

  async close(): Promise<void> {
    this.#bridge.stdin.end();
    await this.#bridge;
  }
}
