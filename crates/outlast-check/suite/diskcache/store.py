"""diskcache.Index, a transaction each; larger values are files of their own."""
import diskcache


class Store:
    several = True

    def __init__(self, dir):
        self.cache = diskcache.Cache(dir + "/t", disk_min_file_size=2000, eviction_policy="none")
        self.index = diskcache.Index.fromcache(self.cache)

    def put(self, pairs):
        with self.index.transact():
            self.index.update(pairs)

    def items(self):
        return list(self.index.items())

    def close(self):
        self.cache.close()
