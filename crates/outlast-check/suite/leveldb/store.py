"""LevelDB, each write synced."""
import plyvel


class Store:
    several = True

    def __init__(self, dir):
        self.db = plyvel.DB(dir, create_if_missing=True)

    def put(self, pairs):
        with self.db.write_batch(sync=True) as batch:
            for key, value in pairs:
                batch.put(key.encode(), value.encode())

    def items(self):
        return [(key.decode(), value.decode()) for key, value in self.db]

    def close(self):
        self.db.close()
