import { unlessMissing } from './errors.ts';
import { readFileSync } from './fs.ts';
import { isThere } from './there.ts';

/** The lines of a list in the home's config folder; blank ones and those that begin with "#" say nothing. @throws an errno */
export function readConfigList(path: string): string[] {
  const text = unlessMissing(() => (isThere(path) ? readFileSync(path, 'utf8') : undefined)) ?? '';
  const lines = text.split('\n').map((line) => line.trim());
  return [...new Set(lines.filter((line) => line !== '' && !line.startsWith('#')))];
}
