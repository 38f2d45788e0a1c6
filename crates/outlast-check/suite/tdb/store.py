"""Samba's trivial database, a transaction each."""
import ctypes
import os

tdb = ctypes.CDLL("libtdb.so.1")


class Data(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char_p), ("size", ctypes.c_size_t)]


Each = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, Data, Data, ctypes.c_void_p)
tdb.tdb_open.restype = ctypes.c_void_p
tdb.tdb_store.argtypes = [ctypes.c_void_p, Data, Data, ctypes.c_int]
tdb.tdb_traverse_read.argtypes = [ctypes.c_void_p, Each, ctypes.c_void_p]
for name in "close", "transaction_start", "transaction_commit":
    getattr(tdb, "tdb_" + name).argtypes = [ctypes.c_void_p]


class Store:
    several = True

    def __init__(self, dir):
        self.db = tdb.tdb_open((dir + "/t.tdb").encode(), 0, 0, os.O_RDWR | os.O_CREAT, 0o644)
        if not self.db:
            raise OSError("tdb_open")

    def put(self, pairs):
        right = tdb.tdb_transaction_start(self.db) == 0
        for pair in pairs:
            key, value = (Data(text.encode(), len(text)) for text in pair)
            right = right and tdb.tdb_store(self.db, key, value, 0) == 0
        if not right or tdb.tdb_transaction_commit(self.db):
            raise OSError("tdb_transaction_commit")

    def items(self):
        found = []
        each = Each(lambda _, key, value, __: found.append(tuple(ctypes.string_at(x.bytes, x.size).decode() for x in (key, value))) or 0)
        if tdb.tdb_traverse_read(self.db, each, None) < 0:
            raise OSError("tdb_traverse_read")
        return found

    def close(self):
        tdb.tdb_close(self.db)
