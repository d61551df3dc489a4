"""Continuations of common prompts stand in rows, and see their prompt and themselves."""

import numpy as np

from scisci_gym.engine.compute.continuations import lay_out


def test_two_prompts() -> None:
    """The first prompt (three tokens) has three continuations, the second (one token) one, as long as all of those."""
    continuations = [np.array(tokens) for tokens in ([11, 12], [21], [31, 32], [41, 42, 43, 44])]
    layout = lay_out(continuations, [0, 0, 0, 1], [3, 1])
    assert layout.tokens.tolist() == [[11, 12, 21, 31, 32], [41, 42, 43, 44, 0]]
    assert layout.positions.tolist() == [[3, 4, 3, 3, 4], [1, 2, 3, 4, 0]]
    assert layout.prompts.tolist() == [0, 1]
    assert layout.starts == [0, 2, 3, 5]
    seen = ["".join("x" if one else "." for one in row) for row in layout.mask.flatten(0, 2)]
    assert seen[:5] == ["xxxx....", "xxxxx...", "xxx..x..", "xxx...x.", "xxx...xx"]
    assert seen[5:9] == ["x..x....", "x..xx...", "x..xxx..", "x..xxxx."]


def test_many_continuations_of_one_prompt_make_no_wide_rows_for_others() -> None:
    continuations = [np.zeros(2, np.int64)] * 14
    layout = lay_out(continuations, [0] * 10 + [1, 2, 3, 4], [9] * 5)
    assert layout.tokens.shape == (8, 6)
    assert layout.prompts.tolist() == [0, 0, 0, 0, 1, 2, 3, 4]
