"""TinyDB with its JSONStorage."""
import tinydb


class Store:
    several = False

    def __init__(self, dir):
        self.db = tinydb.TinyDB(dir + "/t.json")

    def put(self, pairs):
        for key, value in pairs:
            self.db.upsert({"k": key, "v": value}, tinydb.where("k") == key)

    def items(self):
        return [(row["k"], row["v"]) for row in self.db.all()]

    def close(self):
        self.db.close()
