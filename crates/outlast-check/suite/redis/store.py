"""A Redis server; the arguments are its options. Each transaction is a MULTI. With `outlast` as the first, it is ours over a
pool in domain `page`."""
import os
import shutil
import socket
import subprocess
import tempfile
import time


class Store:
    several = True

    def __init__(self, dir, *options):
        self.place = tempfile.mkdtemp()
        path = self.place + "/socket"
        words = ["redis-server", "--port", "0", "--unixsocket", path, "--dir", os.path.abspath(dir), "--save", "", *options]
        if options[:1] == ("outlast",):
            serve = [os.environ["SUITE_OUTLAST"] + "/outlast", "serve", dir + "/t.pool", "--port", "0", "--unix", path]
            words = [*serve, "--domain", "page", "--size", "16M", *options[1:]]
        self.server = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        until = time.monotonic() + 15
        while not self.ready(path):
            if self.server.poll() is not None or time.monotonic() > until:
                lines = [line for line in self.stop().splitlines() if " # " in line and "WARNING" not in line]
                raise OSError(lines[-1].split(" # ")[-1] if lines else "redis-server does not answer")
            time.sleep(0.01)

    def ready(self, path):
        try:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(path)
            self.lines = self.socket.makefile("rb")
            return self.ask("PING") == "PONG"
        except OSError:
            return False

    def ask(self, *words):
        parts = [f"${len(word.encode())}\r\n{word}\r\n" for word in words]
        self.socket.sendall(f"*{len(words)}\r\n{''.join(parts)}".encode())
        return self.answer()

    def answer(self):
        kind, text = (line := self.lines.readline().decode().rstrip())[:1], line[1:]
        if kind in ("", "-"):
            raise OSError(text or "the server hung up")
        if kind == "*":
            return [self.answer() for _ in range(int(text))]
        return self.lines.read(int(text) + 2)[:-2].decode() if kind == "$" else text

    def put(self, pairs):
        self.ask("MULTI")
        for pair in pairs:
            self.ask("SET", *pair)
        self.ask("EXEC")

    def items(self):
        return [(key, self.ask("GET", key)) for key in self.ask("KEYS", "*")]

    def stop(self):
        self.server.kill()
        said = self.server.communicate()[0]
        shutil.rmtree(self.place, ignore_errors=True)
        return said

    def close(self):
        self.socket.sendall(b"SHUTDOWN NOSAVE\r\n")
        self.server.wait(10)
        self.stop()
