"""A table of SQLite: in a journal mode with a level of synchronous, or in a pool of ours in domain `page`."""
import os
import sqlite3


class Store:
    several = True

    def __init__(self, dir, mode, level):
        if mode == "outlast":
            self.connect_to_pool(dir, level)
        else:
            self.db = sqlite3.connect(os.path.join(dir, "t.db"), isolation_level=None)
            self.db.execute(f"pragma journal_mode={mode}")
            self.db.execute(f"pragma synchronous={level}")
        self.db.execute("create table if not exists t(k text primary key, v text)")

    def connect_to_pool(self, dir, scheme):
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(os.environ["SUITE_OUTLAST"] + "/liboutlast_sqlite.so")
        uri = f"file:{os.path.abspath(dir)}/t.pool?vfs=outlast&domain=page&scheme={scheme}&size=4M"
        self.db = sqlite3.connect(uri, uri=True, isolation_level=None)

    def put(self, pairs):
        self.db.execute("begin")
        self.db.executemany("insert or replace into t values (?, ?)", pairs)
        self.db.execute("commit")

    def items(self):
        (said,) = self.db.execute("pragma integrity_check").fetchone()
        if said != "ok":
            raise OSError("malformed: " + said)
        return self.db.execute("select k, v from t")

    def close(self):
        self.db.close()
