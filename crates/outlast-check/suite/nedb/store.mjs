// NeDB: an append-only file that is compacted at the opening.
import { createRequire } from 'node:module';

const Datastore = createRequire(import.meta.url)('@seald-io/nedb');
export const several = false;

export async function open(dir) {
  const db = new Datastore({ filename: `${dir}/t.nedb`, corruptAlertThreshold: 0.1 });
  await db.loadDatabaseAsync();
  return {
    put: async pairs => {
      for (const [_id, v] of pairs) await db.updateAsync({ _id }, { _id, v }, { upsert: true });
    },
    items: async () => (await db.findAsync({})).map(row => [row._id, row.v]),
    close: async () => {},
  };
}
