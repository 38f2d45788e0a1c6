"""DuckDB, a transaction each."""
import duckdb


class Store:
    several = True

    def __init__(self, dir):
        self.db = duckdb.connect(dir + "/t.duckdb", config={"threads": 1})
        self.db.execute("create table if not exists t(k varchar primary key, v varchar)")

    def put(self, pairs):
        self.db.execute("begin")
        for pair in pairs:
            self.db.execute("insert or replace into t values (?, ?)", pair)
        self.db.execute("commit")

    def items(self):
        return self.db.execute("select k, v from t").fetchall()

    def close(self):
        self.db.close()
