"""LMDB, a transaction each; the argument names its options."""
import lmdb


class Store:
    several = True

    def __init__(self, dir, *options):
        self.env = lmdb.open(dir + "/t", map_size=1 << 20, **{option: option == "writemap" for option in options})

    def put(self, pairs):
        with self.env.begin(write=True) as transaction:
            for key, value in pairs:
                transaction.put(key.encode(), value.encode())

    def items(self):
        with self.env.begin() as transaction:
            return [(bytes(key).decode(), bytes(value).decode()) for key, value in transaction.cursor()]

    def close(self):
        self.env.close()
