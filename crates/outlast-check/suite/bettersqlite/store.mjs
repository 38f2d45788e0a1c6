// better-sqlite3 in WAL mode; the argument is the level of synchronous.
import Database from 'better-sqlite3';

export const several = true;

export async function open(dir, [level]) {
  const db = new Database(`${dir}/t.db`);
  db.pragma('journal_mode = WAL');
  db.pragma(`synchronous = ${level}`);
  db.exec('create table if not exists t(k text primary key, v text)');
  const put = db.prepare('insert or replace into t values (?, ?)');
  return {
    put: async pairs => db.transaction(() => pairs.forEach(pair => put.run(...pair)))(),
    items: async () => db.prepare('select k, v from t').raw().all(),
    close: async () => db.close(),
  };
}
