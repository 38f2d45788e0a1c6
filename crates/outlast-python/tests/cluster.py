"""Sweeps on a Dask cluster of two workers. Needs dask[distributed], pandas, and the command: OUTLAST_COMMAND.

``python tests/cluster.py Cluster.test_two_workers_share_the_work`` prints the time of 64 runs on two workers over that on one: for a
machine with nothing else to do.
"""

import os
import shutil
import tempfile
import time
import unittest

try:
    from dask.distributed import Client, LocalCluster
    from outlast import lab, sweep
except ImportError as error:
    raise SystemExit(f"skipped: {error}")

GRID = {"work": ["hash", "btree"], "scheme": ["swift", "undo"], "seed": list(range(16)), "transactions": 4000, "keys": 2000}
PLANTED = {"plant": "flush-wrong-address", "keys": 200, "transactions": 60, "points": 200}


def cluster_of(workers):
    # What workers tell of themselves each half second costs time that runs could have.
    return LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None)


def killer(cluster, after):
    """Kills a worker once this number of points is done."""
    killed = []

    def told(done, all, seconds):
        if done > after and not killed:
            killed.append(next(iter(cluster.workers.values())).pid)
            os.kill(killed[0], 9)

    return told, killed


@unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
class Cluster(unittest.TestCase):
    def test_a_worker_that_dies_costs_its_run_and_nothing_else(self):
        grid = {**GRID, "transactions": 1000}
        alone = sweep.run(lab.sim, grid, workers=2)
        with cluster_of(2) as cluster, Client(cluster) as client:
            told, killed = killer(cluster, 8)
            spread = sweep.run(lab.sim, grid, client=client, progress=told)
            self.assertEqual(len(killed), 1)
        self.assertTrue(spread.equals(alone))

    def test_a_campaign_loses_no_point_with_a_worker(self):
        alone = sweep.crash("hash", "undo", parts=1, **PLANTED)
        with cluster_of(2) as cluster, Client(cluster) as client:
            told, killed = killer(cluster, 2)
            spread = sweep.crash("hash", "undo", parts=12, client=client, progress=told, **PLANTED)
            self.assertEqual(len(killed), 1)
        self.assertTrue(spread.equals(alone))
        self.assertTrue(spread.failures.equals(alone.failures))

    def test_a_check_loses_no_state_with_a_worker(self):
        program = ["/bin/sh", "-c", "for n in 1 2 3; do echo I $n; echo $n >> data/log; [ $n = 2 ] || sync data/log; echo A $n; done"]
        then = "[ $(grep -c . data/log 2>/dev/null || echo 0) -ge $OUTLAST_ACKED ]"
        before = os.getcwd()
        with tempfile.TemporaryDirectory() as folder, cluster_of(2) as cluster, Client(cluster) as client:
            os.chdir(folder)
            try:
                one = sweep.check(program, "data", then, parts=1)
                shutil.rmtree("data")
                told, killed = killer(cluster, 1)
                spread = sweep.check(program, "data", then, parts=8, client=client, progress=told)
            except ValueError as error:
                if "refuses to trace" not in str(error):
                    raise
                self.skipTest(str(error))
            finally:
                os.chdir(before)
        self.assertEqual(len(killed), 1)
        self.assertEqual(spread.attrs["states"], one.attrs["states"])
        self.assertEqual((set(spread["class"]), spread.attrs["verdict"]), (set(one["class"]), "bad"))

    def test_two_workers_share_the_work(self):
        times = {}
        for workers in (1, 2):
            with cluster_of(workers) as cluster, Client(cluster) as client:
                sweep.run(lab.sim, {**GRID, "seed": [1]}, client=client)
                start = time.monotonic()
                sweep.run(lab.sim, GRID, client=client)
                times[workers] = time.monotonic() - start
        print(f"64 runs: {times[1]:.1f} s on one worker, {times[2]:.1f} s on two: {times[2] / times[1]:.2f}")


if __name__ == "__main__":
    unittest.main()
