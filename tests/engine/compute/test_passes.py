"""Which sequences of a training request go through the model together, and how their continuations stand in rows."""

from collections.abc import Sequence

import numpy as np

from scisci_gym.engine.compute.passes import PassSequence, lay_out, plan_passes

PREFIX, CONTINUATION = 100, 10


def groups_of(sizes: Sequence[int]) -> list[PassSequence]:
    """Rollouts of prompts of 100 tokens, ten more tokens each, of which all are needed. A group's prompt is made of one
    token, its number.
    """
    needed = np.arange(PREFIX, PREFIX + CONTINUATION)
    made = []
    for group, size in enumerate(sizes):
        for i in range(size):
            tokens = np.append(np.full(PREFIX, group), 10 * group + np.full(CONTINUATION, i))
            made.append(PassSequence(tokens, (len(made),), needed))
    return made


def planned(sizes: Sequence[int], limit: int) -> list[list[int]]:
    """The group of every sequence of every pass."""
    passes = plan_passes(groups_of(sizes), limit, share=True)
    return [[int(s.tokens[0]) for s in batch] for batch in passes]


def test_no_group_is_divided_that_fits_into_a_pass() -> None:
    """Three prompts and ten continuations would fit, but the third prompt would be read again for the other two."""
    assert planned([4, 4, 4], limit=400) == [[0] * 4 + [1] * 4, [2] * 4]


def test_a_group_too_large_for_a_pass_is_divided() -> None:
    """A prompt and five continuations fit; what is left of a group shares its pass with the next one."""
    assert planned([7], limit=150) == [[0] * 5, [0] * 2]
    assert planned([17, 2], limit=250) == [[0] * 15, [0] * 2 + [1] * 2]


def test_sequences_without_a_common_prompt_fill_the_passes() -> None:
    alone = plan_passes(groups_of([1, 1, 1, 1, 1]), 250, share=True)
    assert [[s.prefix for s in batch] for batch in alone] == [[0, 0], [0, 0], [0]]


def test_continuations_see_their_prompt_and_themselves() -> None:
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
