"""No input makes a kernel read or write outside its arrays: fuzzed with bounds checked, in a process that must live."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("fuzz_kernels.py")


# Slow because every kernel is compiled anew, with the checks.
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "examples"), [("abstracts", 6_000), ("graphs", 600)])
def test_kernels_stay_inside_their_arrays(tmp_path, kind, examples):
    # Compiled anew, in a cache of its own: numba would take kernels without the checks from the usual one.
    environment = {**os.environ, "NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, SCRIPT, kind, str(examples)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
