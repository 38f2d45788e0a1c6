"""rq: jobs that succeed, fail and are tried again, one that depends on another, one that is due later."""
import datetime
import sys

import redis
import rq
from rq.job import Job
from rq.registry import FailedJobRegistry

from rq_work import fail, square

db = redis.Redis(port=int(sys.argv[1]))
db.flushall()
queue = rq.Queue(connection=db)
jobs = [queue.enqueue(square, number, result_ttl=500) for number in range(50)]
after = queue.enqueue(square, 7, depends_on=jobs[-1])
broken = queue.enqueue(fail, retry=rq.Retry(max=1))
later = queue.enqueue_in(datetime.timedelta(seconds=1), square, 12)
worker = rq.SimpleWorker([queue], connection=db)
worker.work(burst=True, logging_level="CRITICAL", with_scheduler=False)
assert [job.return_value() for job in jobs] == [number * number for number in range(50)]
assert after.return_value() == 49
assert FailedJobRegistry(queue=queue).get_job_ids() == [broken.id]
assert "broken" in broken.latest_result().exc_string
assert later.id in queue.scheduled_job_registry.get_job_ids()
assert len(Job.fetch(jobs[0].id, connection=db).results()) == 1
print("rq:", rq.VERSION if hasattr(rq, "VERSION") else rq.__version__, "53 jobs")
