"""Kyoto Cabinet's hash database: hard transactions."""
import ctypes

kc = ctypes.CDLL("libkyotocabinet.so.16")
P, N = ctypes.c_void_p, ctypes.c_size_t
kc.kcdbnew.restype = kc.kcdbcursor.restype = kc.kccurget.restype = P
kc.kcdbopen.argtypes = [P, ctypes.c_char_p, ctypes.c_uint32]
kc.kcdbset.argtypes = [P, ctypes.c_char_p, N, ctypes.c_char_p, N]
kc.kcdbbegintran.argtypes = kc.kcdbendtran.argtypes = [P, ctypes.c_int32]
kc.kccurget.argtypes = [P, ctypes.POINTER(N), ctypes.POINTER(P), ctypes.POINTER(N), ctypes.c_int32]
for call in kc.kcdbclose, kc.kcdbcursor, kc.kccurjump, kc.kcdbecode:
    call.argtypes = [P]
WRITE, CREATE = 2, 4


class Store:
    several = True

    def __init__(self, dir):
        self.db = kc.kcdbnew()
        self.need(kc.kcdbopen(self.db, (dir + "/t.kch").encode(), WRITE | CREATE), "open")

    def need(self, right, call):
        if not right:
            raise OSError(f"kcdb{call}: error {kc.kcdbecode(self.db)}")

    def put(self, pairs):
        self.need(kc.kcdbbegintran(self.db, 1), "begintran")
        for key, value in pairs:
            self.need(kc.kcdbset(self.db, key.encode(), len(key), value.encode(), len(value)), "set")
        self.need(kc.kcdbendtran(self.db, 1), "endtran")

    def items(self):
        cursor, length, size, value = kc.kcdbcursor(self.db), N(), N(), P()
        kc.kccurjump(cursor)
        while key := kc.kccurget(cursor, ctypes.byref(length), ctypes.byref(value), ctypes.byref(size), 1):
            yield ctypes.string_at(key, length.value).decode(), ctypes.string_at(value, size.value).decode()

    def close(self):
        self.need(kc.kcdbclose(self.db), "close")
