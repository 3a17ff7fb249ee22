/** Many independent pieces of work, a few at a time. */
export async function eachOf<T>(items: readonly T[], width: number, work: (item: T) => Promise<void>): Promise<void> {
  const rest = [...items];
  const worker = async () => {
    for (let item = rest.shift(); item !== undefined; item = rest.shift()) await work(item);
  };
  // All of them come to their end, so that each cleans up after itself, before a failure is told.
  const results = await Promise.allSettled(Array.from({ length: width }, worker));
  const failed = results.find((result) => result.status === 'rejected');
  if (failed) throw failed.reason;
}
