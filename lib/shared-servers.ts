/**
 * Servers that people share although one task happened to start them: ending one would end other people's work (design
 * section 10, B12). A name is nothing that proves anything: it only ever spares. `config/reap-spare` adds names.
 */
import { basename } from 'node:path';
import { readConfigList } from './config-list.ts';
import { messageOf, TaskError } from './errors.ts';
import { configFile, type Home } from './home.ts';

interface Server {
  /** What it is called in a message. */
  readonly what: string;
  /** The program: the kernel's name for the process (15 bytes) or the last part of argv[0]. */
  readonly program: RegExp;
  /** What one of its arguments must look like, where the program alone says too little. */
  readonly word?: RegExp;
}

const JVM = /^java$/;
const EDITOR_HOST = /^(node|bun|electron|MainThread|node-MainThread)$/;

/** One line for each kind; the first that matches names it. */
export const SHARED_SERVERS: readonly Server[] = [
  { what: 'tmux', program: /^tmux(: (server|client))?$/ },
  { what: 'screen', program: /^screen$/i },
  { what: 'zellij', program: /^zellij$/ },
  { what: 'ssh-agent', program: /^ssh-agent$/ },
  {
    what: 'an ssh master',
    program: /^(ssh|ssh:.*|.*\[mux\])$/,
    word: /\[mux\]$|^-M$|^-[A-Za-z]*M[A-Za-z]*$|^-?o?ControlMaster[= ]/,
  },
  { what: 'gpg-agent', program: /^(gpg-agent|keyboxd|dirmngr|scdaemon)$/ },
  { what: 'dbus', program: /^(dbus-daemon|dbus-launch|dbus-broker(-launch?)?)$/ },
  { what: 'an emacs daemon', program: /^emacs/, word: /^--((fg|bg|old|new)-)?daemon(=|$)/ },
  { what: 'adb', program: /^adb$/ },
  { what: 'a gradle daemon', program: JVM, word: /GradleDaemon|GradleWorkerMain/ },
  { what: 'a kotlin daemon', program: JVM, word: /KotlinCompileDaemon/ },
  { what: 'a bazel server', program: /^(bazel|bazel\(.*)$/ },
  { what: 'a bazel server', program: JVM, word: /A-server\.jar|^--?workspace_directory=/ },
  {
    what: 'a browser',
    program: /^((google-)?chrome|chromium|brave|msedge|microsoft-edge|vivaldi|opera)(-(stable|beta|dev|bin|browser))*$/,
  },
  { what: 'a browser', program: /^(firefox|firefox-esr|firefox-bin|librewolf|epiphany|Safari|Google Chrome)$/ },
  { what: 'VS Code', program: /^(code|code-(insiders|oss|server|tunnel)|codium|cursor|windsurf)$/ },
  { what: 'VS Code', program: EDITOR_HOST, word: /\/\.?(vscode|cursor|windsurf|codium)(-[a-z]+)*\/|\/vscode-server\// },
];

/**
 * What kind of shared server a process is, or undefined. `name` is the kernel's name for it, `extra` the names of
 * config/reap-spare.
 */
export function sharedServer(name: string, argv: readonly string[], extra: ReadonlySet<string>): string | undefined {
  const names = [name, basename(argv[0] ?? ''), argv[0] ?? ''];
  const added = names.find((each) => extra.has(each));
  if (added !== undefined) return `${added}, named in config/reap-spare`;
  const isOne = ({ program, word }: Server) =>
    names.some((each) => program.test(each)) && (word === undefined || argv.some((each) => word.test(each)));
  return SHARED_SERVERS.find(isOne)?.what;
}

/**
 * The names of `config/reap-spare`, one program a line; blank lines and lines that begin with "#" say nothing. A name is
 * compared with the kernel's name of a process (15 bytes) and with the last part of its argv[0].
 * @throws TaskError CONFIG when it cannot be read: nothing is ended then
 */
export function readReapSpare(home: Home): ReadonlySet<string> {
  const path = configFile(home, 'reap-spare');
  try {
    return new Set(readConfigList(path));
  } catch (error) {
    throw new TaskError(
      'CONFIG',
      `${path} cannot be read, so nothing was ended: ${messageOf(error)}; mend it or move it away`,
    );
  }
}
