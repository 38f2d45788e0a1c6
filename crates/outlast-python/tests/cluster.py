"""Sweeps on a Dask cluster of two workers. Needs dask[distributed], pandas, and the command: OUTLAST_COMMAND."""

import os
import time
import unittest

try:
    from dask.distributed import Client, LocalCluster
    from outlast import lab, sweep
except ImportError as error:
    raise SystemExit(f"skipped: {error}")

GRID = {"work": ["hash", "btree"], "scheme": ["swift", "undo"], "seed": list(range(16)), "transactions": 1000, "keys": 2000}


@unittest.skipUnless(os.environ.get("OUTLAST_COMMAND"), "OUTLAST_COMMAND names no command")
class Cluster(unittest.TestCase):
    def test_a_worker_that_dies_costs_its_run_and_nothing_else(self):
        alone = sweep.run(lab.sim, GRID, workers=2)
        with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
            killed = []

            def kill_one(done, all, seconds):
                if done > 8 and not killed:
                    killed.append(next(iter(cluster.workers.values())).pid)
                    os.kill(killed[0], 9)

            spread = sweep.run(lab.sim, GRID, client=client, progress=kill_one)
            self.assertEqual(len(killed), 1)
        self.assertTrue(spread.equals(alone))

    def test_two_workers_share_the_work(self):
        times = {}
        for workers in (1, 2):
            with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
                sweep.run(lab.sim, {**GRID, "seed": [1]}, client=client)
                start = time.monotonic()
                sweep.run(lab.sim, GRID, client=client)
                times[workers] = time.monotonic() - start
        print(f"64 runs: {times[1]:.1f} s on one worker, {times[2]:.1f} s on two: {times[2] / times[1]:.2f}")


if __name__ == "__main__":
    unittest.main()
