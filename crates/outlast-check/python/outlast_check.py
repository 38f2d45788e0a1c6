"""What a program says of its transactions to `outlast check`, and a loop for checks that stay.

    outlast_check.issued(7)   before transaction 7 begins; transactions count from 1
    outlast_check.acked(7)    once it is acknowledged: it must survive a loss of power from here on

Each is one system call under the checker, and nothing elsewhere. This file needs the standard library
alone and can be copied. Children made by `subprocess` need `pass_fds=outlast_check.descriptors()`.
"""

import os
import signal
import stat
import sys
import traceback


def descriptors():
    """The descriptors for marks: one under the checker, none elsewhere."""
    try:
        number = int(os.environ["OUTLAST_MARKS"])
        # A descriptor of that number that is something else is left alone.
        return (number,) if stat.S_ISFIFO(os.fstat(number).st_mode) else ()
    except (KeyError, ValueError, OSError):
        return ()


def issued(number):
    """Says that transaction `number` begins."""
    _mark(b"I %d\n" % number)


def acked(number):
    """Says that transaction `number` is acknowledged."""
    _mark(b"A %d\n" % number)


def _mark(line):
    for number in descriptors():
        os.write(number, line)


def serve(check):
    """Answers states from standard input on standard output, until there are no more (`--server`).

    `check(dir, acked, issued)` returns None if the state is right, the number of the last transaction
    that it found whole, or a text that says what is wrong. It runs in a fork for each state, so that an
    exception, a signal and `os._exit` are answers, and no state sees what was left by another.
    """
    for line in sys.stdin:
        folder, acknowledged, begun = line.rstrip("\n").rsplit("\t", 2)
        answer = _in_a_fork(check, folder, int(acknowledged), int(begun))
        sys.stdout.write(answer.replace("\n", " ") + "\n")
        sys.stdout.flush()


def _in_a_fork(check, folder, acknowledged, begun):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        # What the check prints is no answer.
        os.dup2(2, 1)
        try:
            answer = _answer(check(folder, acknowledged, begun))
        except BaseException as error:
            answer = "bad " + traceback.format_exception_only(type(error), error)[-1].strip()
        os.write(writer, answer[:4000].encode("utf-8", "replace"))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return "bad killed by " + signal.Signals(os.WTERMSIG(status)).name
    return answer or "bad ended with status %d" % os.WEXITSTATUS(status)


def _answer(found):
    if found is None or found is True:
        return "ok"
    if found is False:
        return "bad the check returned False"
    return "recovered %d" % found if isinstance(found, int) else "bad " + str(found)
