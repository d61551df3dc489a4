"""The internals of numba that `datasets/compat.py` uses are where this version of numba has them."""

import numpy as np
import pytest
from numba import njit
from numba.core.caching import CacheImpl

from scisci_gym.datasets.compat import NO_PLACE_FOR_CACHE, prefetch
from scisci_gym.datasets.jit import kernel


def test_prefetch_becomes_the_instruction_of_the_processor():
    @njit
    def first(array):
        prefetch(array, 0)
        return array[0]

    assert first(np.array([7])) == 7
    (code,) = first.inspect_llvm().values()
    assert "llvm.prefetch" in code


def test_numba_says_that_there_is_no_place_for_its_cache(monkeypatch):
    monkeypatch.setattr(CacheImpl, "_locator_classes", [])

    def double(x):
        return 2 * x

    with pytest.raises(RuntimeError, match=NO_PLACE_FOR_CACHE):
        njit(cache=True)(double)
    assert kernel(double)(21) == 42
