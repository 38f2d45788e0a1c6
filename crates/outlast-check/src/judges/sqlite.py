# Answers a line a state: DIR, ACKED, ISSUED. Arguments: whether transactions are counted, databases.
import os, sqlite3, sys
counted, expected = sys.argv[1] == "counted", sys.argv[2:]

def is_database(path):
    with open(path, "rb") as file:
        return file.read(16) == b"SQLite format 3\0"

def look(path):
    db = sqlite3.connect(path, isolation_level=None, timeout=5)
    try:
        told = [row[0] for row in db.execute("PRAGMA integrity_check(3)")]
        if told != ["ok"]:
            raise sqlite3.DatabaseError("; ".join(map(str, told)))
        found = 0
        if db.execute("SELECT 1 FROM sqlite_master WHERE name = 'outlast_marks'").fetchone():
            found = db.execute("SELECT max(n) FROM outlast_marks").fetchone()[0] or 0
        # It takes a write as well.
        db.execute("BEGIN IMMEDIATE")
        db.execute("CREATE TABLE outlast_probe (n)")
        db.execute("ROLLBACK")
        return found
    finally:
        db.close()

def check(folder, acked):
    paths = {name: os.path.join(folder, name) for name in expected}
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            if not name.endswith(("-wal", "-shm", "-journal")) and is_database(path):
                paths.setdefault(os.path.relpath(path, folder), path)
    found = 0
    for name, path in sorted(paths.items()):
        if not os.path.exists(path):
            if not counted and acked:
                return f"bad {name} is missing"
            continue
        try:
            found = max(found, look(path))
        except sqlite3.Error as error:
            return f"bad {name}: {error}"
    return f"recovered {found}" if counted else "ok"

for line in sys.stdin:
    folder, acked, issued = line.rstrip("\n").rsplit("\t", 2)
    print(check(folder, int(acked)).replace("\n", " "), flush=True)
