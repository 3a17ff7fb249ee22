/** Linux: a handle on a place, for a folder that even its owner may not read. Not among Node's constants. */
export const O_PATH = 0o10000000;
