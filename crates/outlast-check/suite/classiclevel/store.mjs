// classic-level (LevelDB), each batch synced.
import { ClassicLevel } from 'classic-level';

export const several = true;

export async function open(dir) {
  const db = new ClassicLevel(`${dir}/t`);
  await db.open();
  return {
    put: pairs => db.batch(pairs.map(([key, value]) => ({ type: 'put', key, value })), { sync: true }),
    items: () => db.iterator().all(),
    close: () => db.close(),
  };
}
