"""UnQLite, a transaction each."""
import unqlite


class Store:
    several = True

    def __init__(self, dir):
        self.db = unqlite.UnQLite(dir + "/t.unqlite")

    def put(self, pairs):
        with self.db.transaction():
            for key, value in pairs:
                self.db[key] = value

    def items(self):
        text = lambda value: value.decode() if isinstance(value, bytes) else value
        with self.db.cursor() as cursor:
            return [(text(key), text(value)) for key, value in cursor]

    def close(self):
        self.db.close()
