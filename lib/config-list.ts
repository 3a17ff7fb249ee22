import { unlessMissing } from './errors.ts';
import { readFileSync } from './fs.ts';

/** The lines of a list in the home's config folder; blank ones and those that begin with "#" say nothing. @throws an errno */
export function readConfigList(path: string): string[] {
  const lines = (unlessMissing(() => readFileSync(path, 'utf8')) ?? '').split('\n').map((line) => line.trim());
  return [...new Set(lines.filter((line) => line !== '' && !line.startsWith('#')))];
}
