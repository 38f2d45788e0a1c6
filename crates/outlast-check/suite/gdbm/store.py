"""GNU dbm: GDBM_SYNC, or gdbm_sync after each write."""
import dbm.gnu


class Store:
    several = False

    def __init__(self, dir, mode="sync"):
        self.mode = mode
        self.db = dbm.gnu.open(dir + "/t.gdbm", "cs" if mode == "flag" else "c")

    def put(self, pairs):
        for key, value in pairs:
            self.db[key] = value
        if self.mode == "sync":
            self.db.sync()

    def items(self):
        return [(key.decode(), self.db[key].decode()) for key in self.db.keys()]

    def close(self):
        self.db.close()
