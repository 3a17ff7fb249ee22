/**
 * The build. Each command and the library is one CommonJS file in dist/, and so is each module that they load lazily
 * (`await import('./x.ts')`): what is not reached would still cost its parsing at every start. A command is loaded
 * together with V8's code for it, made here by running it once; another Node ignores that and compiles.
 */
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, dirname, join, relative, resolve } from 'node:path';
import { build } from 'esbuild';

const COMMANDS = ['task-spawn', 'task-teardown', 'task-status'];
/** The parent of a --rm launch, the library, and a thread of its own. */
const OTHERS = ['bin/task-spawn-rm.ts', 'lib/index.ts', 'lib/remove-worker.ts'];

/** @type {Set<string>} */
const lazy = new Set();

/** @type {import('esbuild').Plugin} */
const lazyModules = {
  name: 'lazy modules',
  setup({ onResolve }) {
    onResolve({ filter: /^\..*\.ts$/ }, ({ kind, path, resolveDir }) => {
      if (kind !== 'dynamic-import') return undefined;
      lazy.add(relative('.', resolve(resolveDir, path)));
      return { path: `./${basename(path, '.ts')}.cjs`, external: true };
    });
  },
};

/** @param {string[]} entryPoints */
async function bundle(entryPoints) {
  const { outputFiles } = await build({
    entryPoints,
    bundle: true,
    minify: true,
    platform: 'node',
    target: 'es2022',
    format: 'cjs',
    packages: 'external',
    outdir: 'dist',
    outExtension: { '.js': '.cjs' },
    entryNames: '[name]',
    define: { 'import.meta.url': '__filename', 'import.meta.dirname': '__dirname' },
    plugins: [lazyModules],
    logLevel: 'warning',
    write: false,
  });
  mkdirSync('dist', { recursive: true });
  for (const { path, text } of outputFiles) {
    // Ours are CommonJS: import() would start Node's ES module loader for them.
    writeFileSync(path, text.replaceAll(/\bimport\(("\.\/[\w-]+\.cjs")\)/g, 'Promise.resolve().then(()=>require($1))'));
  }
}

/**
 * What loads a command from the folder `dist`: its code and, where this Node takes it, V8's, which itself compares only
 * versions, flags and length. The shims evaluate this text: require() of it would cost each start a millisecond and a half.
 */
const loader = (/** @type {string} */ name, /** @type {string} */ cache, /** @type {string} */ atExit) => `(dist) => {
const { readFileSync } = require('fs');
const filename = dist + '${name}.cjs';
let cachedData;
try {
  cachedData = readFileSync(dist + \`${cache}.\${process.platform}-\${process.arch}-\${process.version}.v8\`);
} catch {}
const code = '(function (require, __filename, __dirname) {' + readFileSync(filename, 'latin1') + '\\n})';
const script = new (require('vm').Script)(code, { filename, cachedData });
${atExit}script.runInThisContext()(require('module').createRequire(filename), filename, dist);
}
`;

/** @param {string} name @param {string[]} args @param {string} folder */
function warm(name, args, folder) {
  const hash = createHash('sha256')
    .update(readFileSync(`dist/${name}.cjs`))
    .digest('hex')
    .slice(0, 16);
  const cache = `${name}.${hash}.${process.platform}-${process.arch}-${process.version}.v8`;
  const save = `const { exit } = process;
process.exit = (status) => {
  require('fs').writeFileSync(dist + '${cache}', script.createCachedData());
  exit(status);
};
`;
  writeFileSync(`dist/${name}.load.js`, loader(name, '', save));
  const env = { ...process.env, FM_HOME: join(folder, 'home'), FM_TASK_TMP_BASE: folder };
  try {
    execFileSync(`bin/${name}`, args, { env, stdio: 'pipe' });
    chmodSync(`dist/${cache}`, 0o644);
  } catch (error) {
    process.stderr.write(`${name} will start some milliseconds slower: ${error}\n`);
  }
  writeFileSync(`dist/${name}.load.js`, loader(name, `${name}.${hash}`, ''));
}

process.chdir(dirname(import.meta.dirname));
rmSync('dist', { recursive: true, force: true });
await bundle([...OTHERS, ...COMMANDS.map((name) => `bin/${name}.ts`)]);
for (const done = new Set(); done.size < lazy.size; ) {
  const next = [...lazy].filter((path) => !done.has(path));
  await bundle(next);
  for (const path of next) done.add(path);
}
const folder = mkdtempSync(join(tmpdir(), 'task-spawn-build-'));
try {
  warm('task-spawn', ['build', '--', 'true'], folder);
  warm('task-status', [], folder);
  warm('task-teardown', ['build'], folder);
} finally {
  rmSync(folder, { recursive: true });
}
