"""A file that is replaced by rename: the new content goes to another name first."""
import json
import os


class Store:
    several = True

    def __init__(self, dir, sync="none"):
        self.dir, self.sync = dir, sync
        self.path = os.path.join(dir, "content.json")
        self.content = json.load(open(self.path)) if os.path.exists(self.path) else {}

    def put(self, pairs):
        self.content.update(pairs)
        new = self.path + ".new"
        with open(new, "w") as file:
            json.dump(self.content, file)
            file.flush()
            if self.sync != "none":
                os.fsync(file.fileno())
        os.rename(new, self.path)
        if self.sync == "directory":
            dir = os.open(self.dir, os.O_RDONLY)
            os.fsync(dir)
            os.close(dir)

    def items(self):
        return self.content.items()

    def close(self):
        pass
