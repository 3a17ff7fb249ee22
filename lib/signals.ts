/** The signals that people and shells end a program with: what a spawn, a teardown and a --rm parent listen for. */
export const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;
