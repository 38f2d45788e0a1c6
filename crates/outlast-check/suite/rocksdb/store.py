"""RocksDB, each batch synced."""
import rocksdict


class Store:
    several = True

    def __init__(self, dir):
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_keep_log_file_num(1)
        self.db = rocksdict.Rdict(dir + "/t", options)

    def put(self, pairs):
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in pairs:
            batch.put(key.encode(), value.encode())
        options = rocksdict.WriteOptions()
        options.sync = True
        self.db.write(batch, options)

    def items(self):
        return [(bytes(key).decode(), bytes(value).decode()) for key, value in self.db.items()]

    def close(self):
        self.db.close()
