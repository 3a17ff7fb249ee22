/**
 * Starting programs with bytes that Node cannot pass on: arguments and environments that are not UTF-8, names that stand
 * twice, ignored signals, closed descriptors; and seeing ends that Node does not tell (real-time signals). By python3.
 */
import { execFileSync } from 'node:child_process';
import { which } from './shells.ts';

/** All text is latin1: one character for one byte. */
export interface RawJob {
  readonly argv: readonly string[];
  /** Entries, `NAME=value` as a rule. */
  readonly env: readonly string[];
  /** Signals that are ignored when the program starts. */
  readonly ignored?: readonly number[];
  /** Descriptors that are closed when it starts; of 1 and 2 nothing is then read. */
  readonly closed?: readonly number[];
  readonly cwd?: string;
}

export interface RawResult {
  /** undefined when a signal was the end. */
  readonly status: number | undefined;
  readonly signal: number | undefined;
  readonly stdout: string;
  readonly stderr: string;
}

export const hasPython = which('python3') !== undefined;

const RUNNER = `
import ctypes, json, os, resource, signal, sys, tempfile
libc = ctypes.CDLL(None)
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
def array(texts):
    return (ctypes.c_char_p * (len(texts) + 1))(*[text.encode('latin1') for text in texts], None)
def run(job):
    out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
    argv, env = array(job['argv']), array(job['env'])
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open('/dev/null', os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        for number in range(1, 65):
            if number not in (9, 19, 32, 33):
                signal.signal(number, signal.SIG_IGN if number in job.get('ignored', []) else signal.SIG_DFL)
        if 'cwd' in job: os.chdir(job['cwd'])
        os.closerange(3, 256)
        for fd in job.get('closed', []): os.close(fd)
        libc.execve(argv[0], argv, env)
        os._exit(99)
    status = os.waitpid(pid, 0)[1]
    def read(file):
        file.seek(0)
        return file.read().decode('latin1')
    return {
        'status': os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
        'signal': os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
        'stdout': read(out),
        'stderr': read(err),
    }
print(json.dumps([run(job) for job in json.load(sys.stdin)]))
`;

/** Runs the jobs one after the other; argv[0] is a path. */
export function runRaw(jobs: readonly RawJob[]): RawResult[] {
  const text = execFileSync('python3', ['-c', RUNNER], {
    input: JSON.stringify(jobs),
    encoding: 'utf8',
    maxBuffer: 1e9,
  });
  const results = JSON.parse(text) as { [K in keyof RawResult]: RawResult[K] | null }[];
  return results.map((result) => ({
    status: result.status ?? undefined,
    signal: result.signal ?? undefined,
    stdout: String(result.stdout),
    stderr: String(result.stderr),
  }));
}
