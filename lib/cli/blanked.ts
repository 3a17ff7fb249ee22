/** The names that the shim blanks for Node alone; the shell still has the caller's. Kept equal to bin/task-spawn by a test. */
export const BLANKED = [
  'TMPDIR',
  'NODE_OPTIONS',
  'NODE_CHANNEL_FD',
  'NODE_CHANNEL_SERIALIZATION_MODE',
  'NODE_UNIQUE_ID',
  'NODE_EXTRA_CA_CERTS',
  'NODE_V8_COVERAGE',
  'NODE_COMPILE_CACHE',
  'NODE_DEBUG',
  'NODE_DEBUG_NATIVE',
  'NODE_ICU_DATA',
  'NODE_PATH',
  'NODE_REDIRECT_WARNINGS',
  'OPENSSL_CONF',
] as const;
