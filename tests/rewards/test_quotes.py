"""R_reasoning: what a quote has to be, and the ways to cheat that earn nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scisci_gym.rewards import MAX_REASONING, best_quotes, evidence_credit, quote_credit
from scisci_gym.rewards.quotes import MAX_QUOTES, MAX_WORDS, MIN_WORDS

TITLE = "A river that runs uphill under a glacier"
ABSTRACT = (
    "We report the first direct observation of sustained uphill flow beneath an ice cap. The finding overturns the "
    "assumption that subglacial water follows the bed. Unlike earlier accounts, ours needs no pressurised lake."
)
SOURCES = (TITLE, ABSTRACT)
GOOD = (
    "first direct observation of sustained uphill flow",
    "overturns the assumption that subglacial water follows the bed",
    "ours needs no pressurised lake",
)


def quotes(*passages: str) -> str:
    return " ".join(f"<quote>{passage}</quote>" for passage in passages)


@pytest.mark.parametrize(("count", "credit"), [(0, 0.0), (1, 0.1), (2, 0.2), (3, 0.3)])
def test_three_quotes_make_full_credit(count, credit):
    assert quote_credit(f"Because {quotes(*GOOD[:count])}", SOURCES) == pytest.approx(credit)


def test_more_than_three_earn_no_more():
    assert quote_credit(quotes(*GOOD, TITLE), SOURCES) == MAX_REASONING


@pytest.mark.parametrize(
    ("name", "passages"),
    [
        ("one giant quote", [ABSTRACT]),
        ("single words", ["river", "glacier", "uphill"]),
        ("a phrase that every abstract has", ["We report the first"]),
        ("half a word at its ends", ["irst direct observation of sustained uphil"]),
        ("made up", ["the second indirect observation of sustained uphill flow"]),
        ("other case", ["FIRST DIRECT OBSERVATION OF SUSTAINED UPHILL FLOW"]),
        ("empty", ["", " "]),
        ("across the border of title and abstract", ["uphill under a glacier We report the first"]),
    ],
)
def test_what_does_not_count(name, passages):
    assert quote_credit(quotes(*passages), SOURCES) == 0.0, name


def test_quotation_marks_are_no_words():
    assert quote_credit(quotes(f'" {GOOD[2]} "'), SOURCES) == pytest.approx(0.1)
    assert quote_credit(quotes('" no pressurised lake "'), SOURCES) == 0.0


def test_repetition_and_overlap_count_once():
    assert quote_credit(quotes(*[GOOD[0]] * 3), SOURCES) == pytest.approx(0.1)
    shifted = ["We report the first direct observation", "the first direct observation of sustained"]
    assert quote_credit(quotes(*shifted), SOURCES) == pytest.approx(0.1)


def test_one_made_up_quote_forfeits_all():
    assert quote_credit(quotes(*GOOD[:2], "which nobody had expected at all"), SOURCES) == 0.0


def test_a_shotgun_of_quotes_forfeits_all():
    words = ABSTRACT.split()
    every = [" ".join(words[at : at + 5]) for at in range(0, len(words) - 4, 3)]
    assert len(every) > MAX_QUOTES
    assert quote_credit(quotes(*every), SOURCES) == 0.0


@pytest.mark.parametrize("text", ["<quote>", "</quote>", "<quote><quote></quote></quote>", f"{quotes(GOOD[0])}<quote>"])
def test_unpaired_and_nested_tags_forfeit_all(text):
    assert quote_credit(text, SOURCES) == 0.0


def test_white_space_and_quotation_marks_do_not_matter():
    assert quote_credit(quotes("first  direct\nobservation of\tsustained uphill flow"), SOURCES) > 0
    assert quote_credit(quotes(f"“{GOOD[0]}”"), SOURCES) > 0


def test_length_bounds_are_inclusive():
    words = ABSTRACT.split()
    for size, counts in ((MIN_WORDS - 1, False), (MIN_WORDS, True), (MAX_WORDS, True), (MAX_WORDS + 1, False)):
        assert (quote_credit(quotes(" ".join(words[:size])), SOURCES) > 0) == counts, size


TEXT = st.text(st.sampled_from("ab .\"“'‹é漢\n\u00a0\u200b"), max_size=60)


@given(TEXT.filter(str.strip), TEXT)
def test_full_credit_can_be_reached_on_every_paper(title, abstract):
    sources = (title, abstract)
    passages = best_quotes(sources)
    assert 1 <= len(passages) <= 3
    assert quote_credit(quotes(*passages), sources) == MAX_REASONING


def novelty(passages) -> list[float]:
    """Evidence of a passage: an eighth for every word that speaks for the label."""
    return [sum(word in ("first", "overturns", "Unlike", "no") for word in text.split()) / 8 for text in passages]


def worth(*passages: str) -> float:
    return evidence_credit(quotes(*passages), SOURCES, novelty)


class TestEvidence:
    def test_a_quote_is_paid_by_what_it_says_beyond_passages_of_its_length(self):
        sources = ["a first b c d e f g"]
        # Two of the four passages of five words speak; so do two of the three passages of six.
        assert evidence_credit(quotes("a first b c d"), sources, novelty) == pytest.approx(0.3 * (1 - 2 / 4) / 8)
        assert evidence_credit(quotes("a first b c d e"), sources, novelty) == pytest.approx(0.3 * (1 - 2 / 3) / 8)
        assert evidence_credit(quotes("c d e f g"), sources, novelty) == 0.0

    def test_telling_words_without_their_sentence_are_no_reasons(self):
        sources = ["a first b c d e f g"]
        assert evidence_credit(quotes("first", "a first b c"), sources, novelty) == 0.0
        assert evidence_credit(quotes("first", "a first b c d"), sources, novelty) > 0.0, "it keeps no place"
        assert evidence_credit(quotes("first"), ["first", "a"], novelty) > 0.0, "a paper without five words"

    def test_quotation_marks_are_no_words(self):
        assert worth(f"“ {GOOD[0]} ”") == worth(GOOD[0])
        assert evidence_credit(quotes('" a first b "'), ["a first b"], novelty) == 0.0

    def test_passages_that_speak_earn_more_than_others(self):
        assert worth(*GOOD) > 2 * worth(GOOD[0]) > 0.0
        assert worth("subglacial water follows the bed") == 0.0

    def test_whole_sentences_count_whatever_their_length(self):
        long = "It is, " + "as we have said before and shall say again, " * 4 + "the first one."
        assert len(long.split()) > MAX_WORDS
        assert evidence_credit(quotes(long), [TITLE, f"{long} {'Nothing more is said of it here. ' * 9}"], novelty) > 0

    def test_the_whole_abstract_says_nothing_in_particular(self):
        assert worth(ABSTRACT) == 0.0

    @pytest.mark.parametrize("bad", ["which nobody had expected at all", "", GOOD[0], "the first direct observation"])
    def test_a_quote_that_is_made_up_or_overlaps_costs_only_itself(self, bad):
        assert worth(GOOD[0], bad, GOOD[1]) == worth(*GOOD[:2]) > 0

    def test_a_quote_that_speaks_against_the_label_costs_what_it_weighs(self):
        strong = "Unlike earlier accounts, ours needs no pressurised lake"
        assert 0 < worth(strong, "flow beneath an ice cap") < worth(strong)

    def test_only_three_are_read(self):
        assert worth("the bed", *GOOD[:2], GOOD[2]) == worth(*GOOD[:2]) < worth(*GOOD)

    @given(st.lists(st.sampled_from([*GOOD, "<quote>", "</quote>", "\ud800", "", TITLE, "a"]), max_size=9).map("".join))
    def test_no_text_raises_or_leaves_the_range(self, text):
        for said in (text, quotes(text)):
            assert 0.0 <= evidence_credit(said, SOURCES, novelty) <= MAX_REASONING

    @pytest.mark.parametrize("text", ["<quote>" * 150_000, "<quote>a</quote>" * 60_000, quotes("a " * 500_000)])
    def test_a_megabyte_takes_no_time(self, text):
        assert evidence_credit(text, SOURCES, novelty) == 0.0


FRAGMENTS = [
    *("<quote>", "</quote>", "<QUOTE>", "< quote>", "<answer>", "<", ">", "\x00", "\ud800", "‹quote›", "“", "”", '"'),
    *(" ", "\n", "\u2003", TITLE, ABSTRACT, *GOOD, "first direct observation", "a", "", "\N{KELVIN SIGN}", "漢字"),
]


@given(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join) | st.text())
def test_no_text_raises_or_leaves_the_range(text):
    assert 0.0 <= quote_credit(text, SOURCES) <= MAX_REASONING


@pytest.mark.parametrize("text", ["<quote>" * 150_000, "<quote>a</quote>" * 60_000, quotes("a" * 1_000_000)])
def test_a_megabyte_takes_no_time(text):
    assert quote_credit(text, SOURCES) == 0.0
