/**
 * SHA-256 (FIPS 180-4) of a short text. Ours because node:crypto costs a fifth of a launch to load (docs/bench.md) and a
 * tag is all we hash; a test compares it with node:crypto.
 */

const PRIMES = Array.from({ length: 310 }, (_, n) => n + 2).filter((n) => {
  for (let d = 2; d * d <= n; d++) if (n % d === 0) return false;
  return true;
});

/** The first 32 bits of the fraction, as FIPS 180-4 makes its constants from primes. */
const fraction = (value: number) => ((value - Math.floor(value)) * 2 ** 32) | 0;

/** 64 lower-case hex digits for the UTF-8 bytes of `text`. */
export function sha256(text: string): string {
  const constants = PRIMES.slice(0, 64).map((prime) => fraction(Math.cbrt(prime)));
  const state = PRIMES.slice(0, 8).map((prime) => fraction(Math.sqrt(prime)));
  for (const block of blocksOf(Buffer.from(text))) compress(state, block, constants);
  return state.map((word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

/** The message with its padding, in blocks of 16 big-endian words. */
function blocksOf(bytes: Buffer): number[][] {
  const padded = Buffer.alloc(Math.ceil((bytes.length + 9) / 64) * 64);
  bytes.copy(padded);
  padded[bytes.length] = 0x80;
  padded.writeBigUInt64BE(BigInt(bytes.length) * 8n, padded.length - 8);
  return Array.from({ length: padded.length / 64 }, (_, block) =>
    Array.from({ length: 16 }, (_, word) => padded.readInt32BE(block * 64 + word * 4)),
  );
}

const rotate = (word: number, bits: number) => (word >>> bits) | (word << (32 - bits));

function compress(state: number[], block: number[], constants: readonly number[]): void {
  const words = [...block];
  for (let i = 16; i < 64; i++) {
    const a = words[i - 15] as number;
    const b = words[i - 2] as number;
    const low = rotate(a, 7) ^ rotate(a, 18) ^ (a >>> 3);
    const high = rotate(b, 17) ^ rotate(b, 19) ^ (b >>> 10);
    words.push(((words[i - 16] as number) + low + (words[i - 7] as number) + high) | 0);
  }
  let [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0] = state;
  for (let i = 0; i < 64; i++) {
    const mixed = rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25);
    const one = (h + mixed + ((e & f) ^ (~e & g)) + (constants[i] as number) + (words[i] as number)) | 0;
    const two = ((rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    // Not by destructuring: this code runs once and cold, where that costs four times as much.
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    state[i] = ((state[i] as number) + word) | 0;
  });
}
