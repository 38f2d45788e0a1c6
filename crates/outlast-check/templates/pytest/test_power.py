"""Losses of power at every moment. `outlast-check` is in PATH, or OUTLAST_CHECK names it;
`outlast_check.py` lies beside this file (from the folder `python` of the crate outlast-check)."""

import os
import subprocess
import sys


def test_a_loss_of_power_loses_nothing_acknowledged(tmp_path):
    data = str(tmp_path / "data")
    engine = os.path.join(os.path.dirname(__file__), "engine.py")
    checked = subprocess.run(
        [os.environ.get("OUTLAST_CHECK", "outlast-check"), "--dir", data, "--mutate", "fsync"]
        + ["--junit", str(tmp_path / "power.xml"), "--sarif", str(tmp_path / "power.sarif")]
        + ["--server", f"{sys.executable} {engine} serve", "--", sys.executable, engine, "run", data],
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
