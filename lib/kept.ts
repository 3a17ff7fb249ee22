/** What a removal could not take away: each entry with its reason and what would finish it (cases B49, B50, B51). */
import { readFileSync } from './fs.ts';
import { quoteForPeople } from './text.ts';

export interface KeptEntry {
  readonly path: string;
  readonly reason: string;
}

export interface KeptCause {
  readonly errno: string;
  /** The uid that the entry, or the folder it is in, belongs to, where that is not ours. */
  readonly owner: number | undefined;
  readonly name: string;
  readonly root: string;
}

/** Why an entry could not go, and the command that would help. */
export function explainKept({ errno, owner, name, root }: KeptCause): string {
  const denied = errno === 'EACCES' || errno === 'EPERM';
  const tree = quoteForPeople(root);
  if (denied && owner !== undefined) {
    const next = isSubordinate(owner) ? `podman unshare rm -rf -- ${tree}` : `as that user or root, rm -rf -- ${tree}`;
    return `it or its folder belongs to uid ${owner} (${errno}): ${next}`;
  }
  switch (errno) {
    case 'EBUSY':
      return name.startsWith('.nfs')
        ? 'kept by NFS for a process that has it open (EBUSY): end that process (fuser names it)'
        : 'a mount point, or in use (EBUSY): umount it';
    case 'EPERM':
      return `immutable, append-only or a swap file in use (EPERM; lsattr and /proc/swaps tell): as root, chattr -R -f -ia ${tree}`;
    case 'EACCES':
      return 'permission denied (EACCES)';
    case 'EROFS':
      return 'on a read-only file system (EROFS): mount that writable';
    case 'ENOTEMPTY':
    case 'EEXIST':
      return `something keeps writing into it (${errno}): end that`;
    default:
      return errno;
  }
}

/** Whether a uid is one that some user's rootless containers map: that user can remove it from inside. */
function isSubordinate(uid: number): boolean {
  try {
    const lines = readFileSync('/etc/subuid', 'utf8').split('\n');
    return lines.some((line) => {
      const [, first, count] = line.split(':').map(Number);
      return first !== undefined && count !== undefined && uid >= first && uid < first + count;
    });
  } catch {
    return false;
  }
}
