"""Sizes of memory as they are written on a command line."""

import pytest

from scisci_gym.datasets.byte_size import byte_size


@pytest.mark.parametrize(
    ("text", "size"),
    [("8GB", 8 * 10**9), ("1.5 gb", 1_500_000_000), ("512MiB", 512 << 20), (" 2TB ", 2 * 10**12), ("700000B", 700_000)],
)
def test_units_count_by_thousands_or_as_named_by_1024(text, size):
    assert byte_size(text) == size


@pytest.mark.parametrize("text", ["8XB", "8", "GB", "", "-1GB", "0GB", "0.1B", "8 G B", "1e3MB", "nan GB"])
def test_anything_else_is_no_size(text):
    with pytest.raises(ValueError, match=f"^memory {text} is not a size: give e.g. 8GB$"):
        byte_size(text)
