"""Run by `test_bounds.py` in a process of its own: every numba kernel, on made-up input, with `NUMBA_BOUNDSCHECK=1`.

    python fuzz_kernels.py KIND EXAMPLES

Properties fail with an exception and its example, an index outside an array as `IndexError`; a write past the end of
memory would end the process without either.
"""

import json
import sys
from itertools import pairwise

import numba
import numpy as np
import orjson
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.disruption.robustness import rewired_cd
from scisci_gym.datasets.disruption.variants import cd_trajectory, dependence, di_l
from scisci_gym.datasets.graph import CitationGraph
from scisci_gym.datasets.labels.citation_impact import citations_in_window, sleeping_beauty
from scisci_gym.datasets.novelty import atypicality
from scisci_gym.datasets.novelty.commonness import commonness
from scisci_gym.datasets.novelty.first_pairs import first_pairs
from scisci_gym.datasets.openalex import record
from scisci_gym.datasets.openalex.decode import known_abstracts
from scisci_gym.datasets.openalex.inverted_index import reference_lists
from scisci_gym.datasets.openalex.record import abstract_from_inverted_index, reference_numbers, short_id
from scisci_gym.datasets.openalex.string_columns import id_numbers, plain_dois, plain_texts

# Words long and short, escaped and not; many positions of one word; positions that repeat, leave gaps, or are none.
characters = st.characters(codec="utf-8") | st.sampled_from('"\\/\n\t\u00a0\u2003\u3000é😀{}[]:,')
words = st.text(characters, max_size=8) | st.integers(0, 400).map("x".__mul__) | st.just("é" * 90)
positions = st.one_of(
    st.lists(st.integers(0, 40) | st.integers(65_000, 66_000), max_size=4),
    st.integers(0, 3000).map(lambda n: list(range(n))),
    st.sampled_from([None, "0", [-1], [True], [10**30], [[0]]]),
)
indexes = st.dictionaries(words, positions, max_size=8)
ids = st.sampled_from(["https://openalex.org/W7", "W12", "w", "", "W1x", 'W"', "W123456789012345678901"]) | words


@st.composite
def documents(draw, values):
    """JSON of a value as a writer may put it, now and then cut off or with bytes exchanged."""
    separators = draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    text = json.dumps(draw(values), ensure_ascii=draw(st.booleans()), separators=separators)
    raw = bytearray(text.encode("utf-8", "surrogatepass"))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 3]))):
        if raw:
            raw[draw(st.integers(0, len(raw) - 1))] = draw(st.sampled_from(b'"\\[]{}:,0 9u\xe3\xff'))
    return bytes(raw[: draw(st.integers(0, len(raw)))] if draw(st.integers(0, 7)) == 0 else raw)


def read(text):
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def abstracts(examples: int) -> None:
    """`examples` abstracts, and as many reference lists, five at a time."""

    @settings(
        max_examples=-(-examples // 5),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.lists(documents(indexes), min_size=5, max_size=5),
        st.lists(documents(st.lists(ids, max_size=6)), max_size=5),
        st.lists(ids | st.sampled_from([" a", "a  b", "https://doi.org/10.1/A b", "null"]), max_size=5),
    )
    def check(abstracts, references, strings):
        column = pa.array(strings, pa.string())
        assert id_numbers(column).tolist() == [short_id(value) or -(short_id(value) is None) for value in strings]
        assert plain_texts(column).to_pylist() == [record.text(value) for value in strings]
        assert plain_dois(column).to_pylist() == [record.normalised_doi(value) for value in strings]
        texts = known_abstracts(abstracts).to_pylist()
        assert len(texts) == 5
        for raw, text in zip(abstracts, texts, strict=True):
            value = read(raw)
            if isinstance(value, dict) and json.dumps(value).count('"') == raw.count(b'"'):  # no word written twice
                assert text == abstract_from_inverted_index(value)
        whole = [raw for raw in references if isinstance(read(raw), list)]
        assert reference_lists(whole).to_pylist() == [reference_numbers(read(raw)) for raw in whole]

    check()


@st.composite
def literatures(draw):
    size = draw(st.integers(1, 40))
    years = draw(st.lists(st.integers(1990, 2003) | st.sampled_from([0, 1800, 9999]), min_size=size, max_size=size))
    node = st.integers(-1, size - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=150))
    # Sources of OpenAlex have numbers of ten digits, and nothing keeps a caller from larger ones.
    venue = st.sampled_from([-1, 0, 1, 2, 7, 4_306_400_194, 2**62])
    venues = draw(st.lists(venue, min_size=size, max_size=size))
    return CitationGraph.from_edges([a for a, _ in edges], [b for _, b in edges], years), venues


def graphs(examples: int) -> None:
    """Every measure of `examples` graphs."""

    @settings(
        max_examples=examples, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(literatures(), st.none() | st.integers(1, 12), st.sampled_from([1, 3]), st.integers(0, 9))
    def check(literature, window, threads, seed):
        graph, venues = literature
        for low, high in pairwise(graph.cit_indptr.tolist()):
            assert 0 <= low <= high
        assert sum(disruption_counts(graph, window, threads=threads)).min() >= 0
        di_l(graph, 2, window, threads=threads)
        dependence(graph, window, threads=threads)
        cd_trajectory(graph, window or 5, threads=threads)
        rewired_cd(graph, window, samples=2, seed=seed, threads=threads)
        citations_in_window(graph, window or 5)
        sleeping_beauty(graph)
        for null in ("shuffle", "switch"):
            atypicality(graph, venues, null=null, samples=3, seed=seed, threads=threads)
        commonness(graph, venues, threads=threads)
        for skip in (0.0, 0.5):
            found = first_pairs(graph, venues, history=2, reuse=seed % 3, skip_least_cited=skip)
            assert np.isfinite(found.novelty).all()

    check()


if __name__ == "__main__":
    assert numba.config.BOUNDSCHECK == 1  # pyright: ignore[reportAttributeAccessIssue]
    {"abstracts": abstracts, "graphs": graphs}[sys.argv[1]](int(sys.argv[2]))
