"""A counter that survives a loss of power: the program to replace by yours.

    python3 engine.py run DIR     puts 1 to 5, and marks each
    python3 engine.py serve       answers a line for each directory that a crash may leave
"""

import os
import sys

import outlast_check


def put(folder, number):
    """Writes the counter. Once this returns, the number is there after any crash."""
    with open(os.path.join(folder, "count.new"), "w") as file:
        file.write(str(number))
        file.flush()
        os.fsync(file.fileno())
    os.rename(os.path.join(folder, "count.new"), os.path.join(folder, "count"))
    directory = os.open(folder, os.O_RDONLY)
    os.fsync(directory)
    os.close(directory)


def get(folder):
    """Reads the counter: 0 where there is none."""
    try:
        with open(os.path.join(folder, "count")) as file:
            return int(file.read())
    except FileNotFoundError:
        return 0


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        outlast_check.serve(lambda folder, acked, issued: get(folder))
    else:
        for number in range(1, 6):
            outlast_check.issued(number)
            put(sys.argv[2], number)
            outlast_check.acked(number)
