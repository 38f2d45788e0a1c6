"""Tokyo Cabinet's hash database: synchronised transactions (HDBOTSYNC)."""
import ctypes

tc = ctypes.CDLL("libtokyocabinet.so.9")
tc.tchdbnew.restype = tc.tchdbiternext2.restype = tc.tchdbget2.restype = ctypes.c_void_p
tc.tchdbopen.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int]
tc.tchdbput2.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
tc.tchdbget2.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
for name in "tranbegin", "trancommit", "iterinit", "iternext2", "close", "ecode":
    getattr(tc, "tchdb" + name).argtypes = [ctypes.c_void_p]
WRITE, CREATE, SYNCED = 2, 4, 64


class Store:
    several = True

    def __init__(self, dir):
        self.db = tc.tchdbnew()
        self.need(tc.tchdbopen(self.db, (dir + "/t.tch").encode(), WRITE | CREATE | SYNCED), "open")

    def need(self, right, call):
        if not right & 1:
            raise OSError(f"tchdb{call}: error {tc.tchdbecode(self.db)}")

    def put(self, pairs):
        self.need(tc.tchdbtranbegin(self.db), "tranbegin")
        for key, value in pairs:
            self.need(tc.tchdbput2(self.db, key.encode(), value.encode()), "put2")
        self.need(tc.tchdbtrancommit(self.db), "trancommit")

    def items(self):
        self.need(tc.tchdbiterinit(self.db), "iterinit")
        while key := tc.tchdbiternext2(self.db):
            key = ctypes.string_at(key)
            yield key.decode(), ctypes.string_at(tc.tchdbget2(self.db, key) or b"").decode()

    def close(self):
        self.need(tc.tchdbclose(self.db), "close")
