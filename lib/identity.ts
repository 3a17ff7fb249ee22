/** What tells one directory from every other: inode and birth time, the device too within one boot (design section 3). */
import { lstatSync } from './fs.ts';

export interface Identity {
  readonly tmp_dev: string;
  readonly tmp_ino: string;
  readonly tmp_btime: string;
}

/** No identity yet: the root may or may not have been made. */
export const UNBORN: Identity = { tmp_dev: '', tmp_ino: '', tmp_btime: '' };

export type BigStat = ReturnType<typeof lookAt>;

/** Follows no link. */
export function lookAt(path: string) {
  return lstatSync(path, { bigint: true });
}

export function identityOf(stat: BigStat): Identity {
  return { tmp_dev: String(stat.dev), tmp_ino: String(stat.ino), tmp_btime: String(stat.birthtimeNs) };
}

/** Whether what was looked at is the directory of that identity; within one boot. */
export function isIdentity(stat: BigStat, { tmp_dev, tmp_ino, tmp_btime }: Identity): boolean {
  const found = identityOf(stat);
  return found.tmp_ino === tmp_ino && found.tmp_dev === tmp_dev && found.tmp_btime === tmp_btime;
}
