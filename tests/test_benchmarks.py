"""The benchmark of two revisions: its interval, and what it prints where a revision cannot run a task."""

import subprocess
import sys
from math import comb
from pathlib import Path

import pytest

from scisci_gym import specs

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("n", [6, 9, 15, 40])
def test_the_interval_encloses_the_median_with_its_confidence(n, monkeypatch):
    """Of n values k or more lie on either side of the median with probability 1 - 2 P(B < k)."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from paired import median_interval

    low, high = median_interval(range(n))
    assert low + high == n - 1
    left_out = [2 * sum(comb(n, i) for i in range(k)) / 2**n for k in (low + 1, low + 2)]
    assert left_out[0] <= 0.05 < left_out[1]


def paired(*arguments):
    command = [sys.executable, str(ROOT / "benchmarks" / "paired.py"), *map(str, arguments), "--only", "environments"]
    return subprocess.run(command, capture_output=True, text=True)


def test_a_revision_that_cannot_run_a_task_is_named(tmp_path):
    (tmp_path / "datasets").mkdir()
    done = paired(tmp_path, ROOT)
    assert done.returncode == 0, done.stderr
    assert f"| environments | cannot run at {tmp_path}: ImportError: it has no package scisci_gym" in done.stdout
    done = paired("no-such-revision", ROOT)
    assert done.stderr.startswith("no-such-revision is neither a checkout nor a revision")


@pytest.mark.slow
def test_two_checkouts_take_turns():
    done = paired(ROOT, ROOT, "--rounds", "3", "--tolerance", "50")
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:-1]]
    assert [row[0] for row in rows] == [env_class.env_id for env_class in specs()]
    for _, *seconds, ratio, interval in rows:
        low, high = map(float, interval.split(" to "))
        assert all(float(each) > 0 for each in seconds)
        assert low <= float(ratio) <= high
