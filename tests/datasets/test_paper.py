"""`Paper`: labels follow from scores, contradictions and bad values are refused with the field and the value."""

import pickle

import pytest

from scisci_gym import Paper


def paper(**fields) -> Paper:
    return Paper(**{"openalex_id": "W1", "title": "A title", **fields})


@pytest.mark.parametrize(
    ("cd_index", "label"),
    [(1.0, "disruptive"), (0.1000001, "disruptive"), (0.1, "neutral"), (-0.1, "neutral"), (-0.11, "consolidating")],
)
def test_label_follows_from_cd(cd_index: float, label: str) -> None:
    assert paper(cd_index=cd_index).disruption_label == label


@pytest.mark.parametrize(
    ("novelty", "conventionality", "label"),
    [
        (0.9, 0.1, "novel"),
        (0.1, 0.9, "conventional"),
        (0.9, 0.9, "balanced"),
        (0.1, 0.1, "balanced"),
        (2 / 3, 0, "novel"),
    ],
)
def test_label_follows_from_atypicality(novelty: float, conventionality: float, label: str) -> None:
    assert paper(novelty_score=novelty, conventionality_score=conventionality).novelty_label == label


def test_all_fixed_keywords_work() -> None:
    made = Paper(
        openalex_id="W2100837269",
        title="t",
        abstract="a",
        publication_year=1994,
        cited_by_count=3,
        cd_index=-0.5,
        novelty_score=0.2,
        conventionality_score=0.8,
        disruption_label="consolidating",
        novelty_label="conventional",
        primary_field="Physics",
    )
    assert pickle.loads(pickle.dumps(made)) == made


def test_contradiction_is_refused() -> None:
    with pytest.raises(ValueError, match=r"disruption_label='neutral' contradicts cd_index=0.4"):
        paper(cd_index=0.4, disruption_label="neutral")


def test_quantile_labels_stand_on_their_own() -> None:
    assert paper(cd_index=0.4, disruption_label="neutral", label_scheme="quantile").disruption_label == "neutral"
    assert paper(cd_index=0.4, label_scheme="quantile").disruption_label is None


def test_another_threshold_travels_with_the_paper() -> None:
    assert paper(cd_index=0.15, cd_threshold=0.2).disruption_label == "neutral"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("publication_year", "1994"),
        ("publication_year", 1994.0),
        ("publication_year", True),
        ("publication_year", 20017),
        ("cd_index", 1.5),
        ("cd_index", float("nan")),
        ("cd_index", "high"),
        ("novelty_score", -0.1),
        ("conventionality_score", 1.1),
        ("disruption_label", "disrupting"),
        ("novelty_label", "new"),
        ("title", "  "),
        ("title", None),
        ("abstract", None),
        ("cited_by_count", -1),
        ("label_scheme", "best"),
        ("openalex_id", ""),
    ],
)
def test_bad_values_name_field_and_value(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=field) as caught:
        paper(**{field: value})
    assert repr(value) in str(caught.value)


def test_frozen() -> None:
    with pytest.raises(AttributeError):
        paper().title = "other"  # type: ignore[misc]


def test_a_withheld_label_is_none_whatever_the_scores_say():
    withheld = paper(novelty_score=0.9, conventionality_score=0.2, novelty_withheld=True)
    assert withheld.novelty_label is None
    assert Paper.from_row(withheld.to_row()) == withheld
    with pytest.raises(ValueError, match="novelty_label='novel' is given and novelty_withheld=True"):
        paper(novelty_label="novel", novelty_withheld=True)
    with pytest.raises(ValueError, match="novelty_withheld must be True or False, got 1"):
        paper(novelty_withheld=1)
