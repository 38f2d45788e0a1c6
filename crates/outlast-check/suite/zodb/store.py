"""ZODB over FileStorage, a transaction each."""
import transaction
import ZODB
import ZODB.FileStorage


class Store:
    several = True

    def __init__(self, dir):
        self.db = ZODB.DB(ZODB.FileStorage.FileStorage(dir + "/t.fs"))
        self.root = self.db.open().root()

    def put(self, pairs):
        self.root.update(pairs)
        transaction.commit()

    def items(self):
        return list(self.root.items())

    def close(self):
        transaction.abort()
        self.db.close()
