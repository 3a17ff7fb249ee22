import pkg from '../../package.json' with { type: 'json' };

export const VERSION = pkg.version;

export const HELP = `usage: task-spawn [options] <id> -- <command> [argument ...]
       task-spawn [options] -- <command> [argument ...]
       task-spawn --env [--pid N] [--json] [options] <id>
       task-spawn --set KEY=VALUE [...] <id>

Runs the command as the task <id>: makes a private temp directory for it, writes
that down first, exports it, and becomes the command. task-teardown <id> ends
the task. What is in the directory is disposable: copy out what a report depends
on before the end.

  --rm              stay as the command's parent and tear the task down when it
                    ends; implied, with an id of its own, when <id> is left out
  --env             start no command: print the exports for eval; the task is
                    held until task-teardown is called for it
  --pid N           with --env: the task is that process, such as $$
  --json            with --env: print one object instead
  --home DIR        the home that scopes tasks (FM_HOME; else
                    \${XDG_STATE_HOME:-~/.local/state}/task-spawn)
  --base DIR        where the directory is made (FM_TASK_TMP_BASE; else /tmp)
  --pin, --no-pin   set TMPDIR to the directory, or not, whatever the flag
                    config/task-tmpdir-pin in the home says
  --no-hold         no lock on the directory that keeps temp cleaners away
  --set KEY=VALUE   keep a key of your own in the task's record
  --lock-wait TIME  wait so long for a busy task (default 5s)
  --help, --version

The command sees FM_HOME, FM_TASK_ID, FM_TASK_TMP (the directory),
FM_TASK_TOKEN, GOTMPDIR; FM_TASK_PARENT inside another task; TMPDIR when pinned,
and the variables that config/tmpdir-vars names.
Exit status: the command's own; 125 task-spawn failed before it started;
126 the command cannot be run; 127 it was not found.
`;
