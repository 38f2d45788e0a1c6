"""Celery: a worker of its own, tasks with results, retries, a group with a chord, a delay."""
import os
import subprocess
import sys

import celery

port = sys.argv[1] if __name__ == "__main__" else os.environ["OUTLAST_PORT"]
url = f"redis://127.0.0.1:{port}/"
app = celery.Celery("jobs_celery", broker=url + "1", backend=url + "2")
app.conf.update(task_acks_late=True, broker_connection_retry_on_startup=True)


@app.task(name="square")
def square(number):
    return number * number


@app.task(name="total")
def total(numbers):
    return sum(numbers)


@app.task(name="flaky", bind=True, max_retries=3)
def flaky(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


def run():
    words = ["-q", "-A", "jobs_celery", "worker", "--pool", "solo", "--loglevel", "ERROR", "--without-gossip"]
    folder = os.path.dirname(os.path.abspath(__file__))
    environment = dict(os.environ, OUTLAST_PORT=port, PYTHONDONTWRITEBYTECODE="1")
    command = [sys.executable, "-W", "ignore", "-m", "celery", *words]
    worker = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
    try:
        results = [square.delay(number) for number in range(50)]
        assert [result.get(timeout=60) for result in results] == [number * number for number in range(50)]
        assert flaky.delay().get(timeout=60) == 2
        chord = celery.chord((square.s(number) for number in range(5)), total.s())
        assert chord.apply_async().get(timeout=60) == 30
        assert square.apply_async((9,), countdown=1).get(timeout=60) == 81
    finally:
        worker.terminate()
        worker.wait(timeout=30)
    print("Celery:", celery.__version__, "59 tasks")


if __name__ == "__main__":
    run()
