"""The workload and the check that all rows in Python share, and the check of rows in other languages.

Transaction i writes a few keys whose values name it, so that each state between two transactions is another one. A store is a
class with `__init__(dir)`, `put(pairs)`, `items()` and `close()`; `several = True` says that it promises transactions of
several keys.

    suite.py STORE.py workload DIR [ARGUMENT…]     runs the transactions
    suite.py STORE.py check [ARGUMENT…]            answers for each line 'DIR ACKED ISSUED' on standard input
    suite.py - dump COMMAND                        the same, by 'COMMAND dump DIR', which prints lines 'KEY VALUE'
"""
import importlib.util
import os
import subprocess
import sys

TRANSACTIONS = int(os.environ.get("SUITE_TRANSACTIONS", "8"))


def value(i):
    """The value that transaction i writes: some fit in a sector, some take several pages."""
    return f"{i}:" + chr(97 + i % 26) * (50 + 900 * (i % 6))


def pairs(i, several):
    """What transaction i writes."""
    one = [(f"k{i % 5}", value(i))]
    return one + [(f"m{i % 3}", value(i + 1000)), ("n", str(i))] if several else one


def recovered(found, several, last):
    """The transaction after which the keys are as `found`; any other content is an error."""
    found, state = dict(found), {}
    matching = 0 if found == state else None
    for i in range(1, last + 1):
        state.update(pairs(i, several))
        matching = i if found == state else matching
    if matching is not None:
        return matching
    known = {pair for i in range(1, last + 1) for pair in pairs(i, several)}
    wrong = sorted(key for key, text in found.items() if (key, text) not in known)
    raise Wrong(f"torn: {wrong[0]}" if wrong else "mixed: each key is legal, no order of transactions fits")


class Wrong(Exception):
    """Content that no prefix of the transactions explains."""


def work(Store, dir, arguments):
    """Runs the transactions; the store is opened again halfway."""
    store = Store(dir, *arguments)
    for i in range(1, TRANSACTIONS + 1):
        print("I", i, flush=True)
        store.put(pairs(i, Store.several))
        print("A", i, flush=True)
        if i == TRANSACTIONS // 2:
            store.close()
            store = Store(dir, *arguments)
    store.close()


def answer(items, several, issued):
    """A line about a state: `items` gives its content or fails."""
    try:
        return f"recovered {recovered(items(), several, issued)}"
    except Wrong as error:
        return f"bad {error}"
    except Exception as error:
        text = " ".join(str(error).split()) or type(error).__name__
        kind = "malformed" if "malformed" in text else "unopenable"
        return f"bad {kind}: {type(error).__name__}: {text[:200]}"


def serve(items, several):
    """Answers for each state in a child process of its own: a store that crashes takes no other state with it."""
    for line in sys.stdin:
        dir, _, issued = line.rstrip("\n").split("\t")
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(here)
            null = os.open(os.devnull, os.O_RDWR)
            for fd in 0, 1, 2:
                os.dup2(null, fd)
            os.write(there, answer(lambda: items(dir), several, int(issued)).encode())
            os._exit(0)
        os.close(there)
        with os.fdopen(here, "rb") as said:
            text = said.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(text or f"bad killed: status {status}", flush=True)


def dumped(command):
    """The content of a folder as a command tells it."""
    def items(dir):
        told = subprocess.run([*command, "dump", dir], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if told.returncode:
            raise OSError((told.stderr.strip().splitlines() or [f"status {told.returncode}"])[0])
        return [line.split(" ", 1) for line in told.stdout.splitlines()]
    return items


def main():
    file, task, *rest = sys.argv[1:]
    if task == "dump":
        several, *command = rest
        return serve(dumped(command), several == "several")
    spec = importlib.util.spec_from_file_location("store", file)
    module = importlib.util.module_from_spec(spec)
    sys.dont_write_bytecode = True
    spec.loader.exec_module(module)
    if task == "workload":
        return work(module.Store, rest[0], rest[1:])

    def items(dir):
        store = module.Store(dir, *rest)
        found = list(store.items())
        store.close()
        return found
    serve(items, module.Store.several)


if __name__ == "__main__":
    main()
