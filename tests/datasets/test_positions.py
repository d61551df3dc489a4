"""The look-up of ids gives what a dictionary of first positions gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.datasets.positions import positions_of


@pytest.mark.parametrize("names", [st.integers(-3, 12), st.text("ab", max_size=2)], ids=["integers", "strings"])
@given(data=st.data())
def test_positions_are_those_of_a_dictionary(names, data):
    ids, wanted = data.draw(st.lists(names)), data.draw(st.lists(names, min_size=1))
    first = {name: position for position, name in reversed(list(enumerate(ids)))}
    positions = positions_of(np.array(wanted), np.array(ids))
    assert positions.tolist() == [first.get(name, -1) for name in wanted]
