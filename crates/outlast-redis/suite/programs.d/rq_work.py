"""Work for rq, which a worker imports by name."""


def square(number):
    return number * number


def fail():
    raise ValueError("broken")
