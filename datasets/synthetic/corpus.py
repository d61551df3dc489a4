"""A synthetic literature whose labels follow from its citation graph and whose wording predicts them to a known degree.

Three steps, each driven by one seed:

1. *Citations.* Every year some focal papers appear. Each cites a niche of older papers with few citations and has a
   latent type: papers that cite a *breaking* one do not cite its niche, papers that cite a *building* one cite the
   niche as well, and a *plain* one cites classics that everybody cites. Nothing else distinguishes them.
2. *Labels* are the CD index of that graph, with the window and the cuts of the label rules. Latent types play no part.
3. *Wording.* Each abstract has a style, which equals the paper's label with probability `fidelity` and is one of the
   others otherwise. The style decides which cue words are frequent. Topic, filler, title, venue, team and date are
   drawn without looking at the label, so a reader who identifies the style perfectly is right with probability
   `fidelity`: that is the ceiling, `style_from_text` attains it, and no reader can beat it but by luck.
   By default there is one style, for disruption; `tells` names the subjects (disruption, novelty, hit) that an abstract
   has a style for, each with cue words of its own and drawn apart from the others.

Works come in OpenAlex shape, so the corpus takes the same road as real data.
"""

import gzip
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..graph.citation_graph import CitationGraph
from ..labels.citation_impact import hit_labels
from ..labels.eligibility import LabelRules
from ..labels.graph_labels import graph_labels, novelty_of_dataset
from ..paper import DISRUPTION_LABELS, HIT_LABELS, NOVELTY_LABELS

FIELDS = ("Hydrology", "Acoustics")
TOPICS = (
    "aquifer basin channel delta estuary flood glacier lake river reservoir runoff sediment snowmelt spring stream "
    "tide watershed wetland well rainfall".split(),
    "amplitude bell chamber chord drum echo flute harmonic hum membrane noise organ pipe pitch resonance string tone "
    "violin voice whistle".split(),
)
FILLER = (
    "we study show present data results model methods analysis system using based between under with from that this "
    "these both over two three several large small high low measured observed computed compared given known found "
    "range order effect value values case cases".split()
)
# Ordinary nouns: knowing English is of no use for them.
_CUES = {
    "disruption": (
        "amber birch copper falcon granite harbor",
        "juniper lantern marble nectar orchid pebble",
        "quartz raven saffron timber velvet willow",
    ),
    "novelty": (
        "acorn badger cedar dagger ember fennel",
        "goblet hazel ivory jasper kettle lemon",
        "mantle needle otter parrot quiver ribbon",
    ),
    "hit": ("anchor bramble canvas dove engine feather", "garnet helmet island jacket kernel ladder"),
}
SUBJECTS = {"disruption": DISRUPTION_LABELS, "novelty": NOVELTY_LABELS, "hit": HIT_LABELS}
"""What an abstract can tell, and the labels of each subject."""

CUE_SHARE, TOPIC_SHARE = 0.45, 0.15
SHARED_CUE_SHARE = 0.7
"""Share of cue words where several subjects share them."""
VENUES = 6
"""Venues of each field."""
OWN_CUE = 0.95
FIRST_WORK = 7_000_000_001
BREAKING, BUILDING, PLAIN = range(3)
# Plain papers are never short of citations, the others lose some at the cuts: these shares even the labels out.
TYPE_SHARES = (0.37, 0.37, 0.26)
NICHE_SIZE, FIRST_FOCAL_YEAR = 6, 6


@dataclass(frozen=True)
class SyntheticCorpus:
    """What a corpus is made from."""

    papers: int = 15_000
    """1,000 or more, over all years; about a fifth can carry a label."""
    seed: int = 0
    first_year: int = 1988
    years: int = 32
    """14 or more."""
    fidelity: float = 0.8
    """In (1/3, 1]: probability that the wording's style is the label, which is the best reachable accuracy."""
    words: int = 36
    """Words of an abstract, 10 or more."""
    tells: tuple[str, ...] = ("disruption",)
    """What the wording tells: some of disruption, novelty and hit."""

    def __post_init__(self) -> None:
        for name, low in {"papers": 1000, "seed": 0, "years": 14, "words": 10}.items():
            if getattr(self, name) < low:
                raise ValueError(f"{name} of a synthetic corpus must be at least {low}, got {getattr(self, name)!r}")
        if not 1 / 3 < self.fidelity <= 1:
            raise ValueError(f"fidelity must be in (1/3, 1], got {self.fidelity!r}")
        if not self.tells or len(set(self.tells)) < len(self.tells) or not set(self.tells) <= set(SUBJECTS):
            raise ValueError(f"tells must be some of {', '.join(SUBJECTS)}, each once, got {', '.join(self.tells)!r}")


def write_synthetic_works(folder: Path, corpus: SyntheticCorpus, rules: LabelRules) -> Path:
    """Write the corpus below `folder` in OpenAlex snapshot layout and return the ``works`` folder.

    The same parameters give the same bytes.
    """
    works = synthetic_works(corpus, rules)
    part = folder / "works" / f"updated_date={corpus.first_year + corpus.years}-01-01" / "part_0000.gz"
    part.parent.mkdir(parents=True, exist_ok=True)
    with part.open("wb") as raw, gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=3, mtime=0) as stream:
        for work in works:
            stream.write(json.dumps(work, separators=(",", ":")).encode() + b"\n")
    size = part.stat().st_size
    entry = {"url": f"{part.parent.name}/{part.name}", "meta": {"content_length": size, "record_count": len(works)}}
    manifest = {"entries": [entry], "meta": {"record_count": len(works)}}
    (folder / "works" / "manifest").write_text(json.dumps(manifest, indent=1) + "\n")
    return folder / "works"


def synthetic_works(corpus: SyntheticCorpus, rules: LabelRules) -> list[dict[str, Any]]:
    """All works of the corpus as OpenAlex work objects, oldest first."""
    rng = np.random.default_rng([corpus.seed, 0])
    years, references = _grow_citations(corpus, rng)
    citing = np.repeat(np.arange(len(years)), [len(cited) for cited in references])
    cited = np.array([paper for row in references for paper in row])
    graph = CitationGraph.from_edges(citing, cited, years)
    field_of = rng.integers(len(FIELDS), size=len(years))
    graph_scores = graph_labels(graph, rules, field_of)
    labels: dict[str, Sequence[str]] = {"disruption": graph_scores.disruption.tolist()}
    venues: Sequence[int | None] = [None] * len(years)
    if "novelty" in corpus.tells:
        venue_of = np.random.default_rng([corpus.seed, 2]).integers(VENUES, size=len(years))
        novelty = novelty_of_dataset(graph, field_of * VENUES + venue_of, corpus.seed)
        assert novelty is not None
        labels["novelty"], venues = novelty.scores.labels.tolist(), venue_of.tolist()
    if "hit" in corpus.tells:
        assert graph_scores.percentiles is not None
        labels["hit"] = hit_labels(graph_scores.percentiles).tolist()
    labels_of = zip(*(labels[subject] for subject in corpus.tells), strict=True)
    cited_by = np.bincount(cited, minlength=len(years))
    writer = _Writer(corpus, np.random.default_rng([corpus.seed, 1]))
    columns = years.tolist(), field_of.tolist(), labels_of, references, cited_by.tolist(), venues
    return [writer.work(paper, *row) for paper, row in enumerate(zip(*columns, strict=True))]


def _grow_citations(corpus: SyntheticCorpus, rng: np.random.Generator) -> tuple[np.ndarray, list[list[int]]]:
    """Years (N,) and reference lists (N) of the literature; every reference is to an earlier year."""
    per_year = np.full(corpus.years, corpus.papers // corpus.years)
    per_year[: corpus.papers % corpus.years] += 1
    years = corpus.first_year + np.repeat(np.arange(corpus.years), per_year)
    starts = np.concatenate([[0], np.cumsum(per_year)])
    references: list[list[int]] = [[] for _ in years]
    latent_type = rng.choice(3, size=len(years), p=TYPE_SHARES)
    niche: dict[int, list[int]] = {}
    is_focal = np.zeros(len(years), dtype=bool)
    classics = np.arange(starts[1] // 4)
    live: list[int] = []
    for index in range(corpus.years):
        newcomers = np.arange(starts[index], starts[index + 1])
        live = [focal for focal in live if years[focal] >= corpus.first_year + index - 5]
        for paper in newcomers:
            references[paper] = _references(int(paper), live, niche, latent_type, classics, int(starts[index]), rng)
        # In earlier years there are too few papers for niches that do not overlap.
        if index >= FIRST_FOCAL_YEAR:
            for focal in rng.choice(newcomers, size=len(newcomers) // 3, replace=False).tolist():
                old = np.arange(starts[max(0, index - 12)], starts[index])
                pool = classics if latent_type[focal] == PLAIN else old[~is_focal[old]]
                niche[focal] = sorted(rng.choice(pool, size=NICHE_SIZE, replace=False).tolist())
                references[focal] = niche[focal]
                is_focal[focal] = True
                live.append(focal)
    return years, references


def _references(paper, live, niche, latent_type, classics, before, rng) -> list[int]:
    """Reference list of an ordinary paper: live focal papers, their niches if their latent type says so, classics."""
    cited: set[int] = set()
    if live:
        for focal in rng.choice(live, size=min(3, len(live)), replace=False).tolist():
            cited.add(focal)
            if latent_type[focal] == BUILDING or (latent_type[focal] == PLAIN and rng.random() < 0.5):
                cited.update(rng.choice(niche[focal], size=2, replace=False).tolist())
    if before > 0:
        cited.update(rng.choice(classics, size=2, replace=False).tolist() if paper >= len(classics) else [])
    return sorted(cited - {paper})


class _Writer:
    """Writes the OpenAlex work of a node of the graph."""

    def __init__(self, corpus: SyntheticCorpus, rng: np.random.Generator):
        self.corpus, self.rng = corpus, rng
        self.cues = [cue_words(subject) for subject in corpus.tells]
        self.cue_share = CUE_SHARE if len(corpus.tells) == 1 else SHARED_CUE_SHARE

    def work(
        self,
        paper: int,
        year: int,
        field: int,
        labels: Sequence[str],
        references: list[int],
        cited_by: int,
        venue: int | None,
    ) -> dict[str, Any]:
        styles = [self._style(SUBJECTS[tell], label) for tell, label in zip(self.corpus.tells, labels, strict=True)]
        title = " ".join(self.rng.choice(TOPICS[field], size=5, replace=False).tolist()).capitalize()
        date = np.datetime64(f"{year}-01-01") + int(self.rng.integers(365))
        venue = int(self.rng.integers(VENUES)) if venue is None else venue
        index: dict[str, list[int]] = {}
        for position, word in enumerate(self._abstract(styles, field)):
            index.setdefault(word, []).append(position)
        return {
            "id": f"https://openalex.org/W{FIRST_WORK + paper}",
            "doi": f"https://doi.org/10.5555/scisci.{self.corpus.seed}.{paper}",
            "title": title,
            "publication_year": year,
            "publication_date": str(date),
            "language": "en",
            "type": "article",
            "is_retracted": False,
            "is_paratext": False,
            "primary_location": {
                "source": {
                    "id": f"https://openalex.org/S{8_000_000_000 + field * 100 + venue}",
                    "display_name": f"Annals of {FIELDS[field]} {venue + 1}",
                }
            },
            "primary_topic": {"field": {"display_name": FIELDS[field]}},
            "authorships": [{}] * int(1 + self.rng.poisson(2)),
            "cited_by_count": cited_by,
            "referenced_works": [f"https://openalex.org/W{FIRST_WORK + cited}" for cited in references],
            "abstract_inverted_index": index,
        }

    def _style(self, labels: Sequence[str], label: str) -> int:
        if not label:
            return int(self.rng.integers(len(labels)))
        truth = labels.index(label)
        return truth if self.rng.random() < self.corpus.fidelity else self._other(truth, len(labels))

    def _other(self, style: int, count: int) -> int:
        return (style + 1 + int(self.rng.integers(count - 1))) % count

    def _abstract(self, styles: Sequence[int], field: int) -> list[str]:
        shares = [self.cue_share, TOPIC_SHARE, 1 - self.cue_share - TOPIC_SHARE]
        kinds = self.rng.choice(3, size=self.corpus.words, p=shares)
        words = []
        for kind in kinds.tolist():
            if kind == 0:
                subject = int(self.rng.integers(len(styles))) if len(styles) > 1 else 0
                own, cues = self.rng.random() < OWN_CUE, self.cues[subject]
                speaker = styles[subject] if own else self._other(styles[subject], len(cues))
                words.append(cues[speaker][int(self.rng.integers(len(cues[speaker])))])
            else:
                pool = TOPICS[field] if kind == 1 else FILLER
                words.append(pool[self.rng.integers(len(pool))])
        return words


def cue_words(subject: str = "disruption") -> tuple[Sequence[str], ...]:
    """Six cue words for each of the labels of a subject (disruption, novelty or hit), in the order of its labels."""
    return tuple(words.split() for words in _CUES[subject])


def style_from_text(text: str, subject: str = "disruption") -> str:
    """The label of a subject that the wording of a synthetic abstract points to: maximum likelihood over the cue words.

    For disruption and novelty this is the Bayes rule of the corpus as long as no label is `fidelity` / ((1 -
    `fidelity`) / 2) times as common as another, eight times at the default. Ties go to the first label.

    Parameters
    ----------
    text : str
    subject : "disruption" | "novelty" | "hit"

    Examples
    --------
    >>> style_from_text(" ".join(cue_words()[1]))
    'consolidating'
    >>> style_from_text(" ".join(cue_words("hit")[0]), "hit")
    'hit'
    """
    cues, words = cue_words(subject), text.lower().split()
    counts = [sum(word in own for word in words) for own in cues]
    own, other = math.log(OWN_CUE), math.log((1 - OWN_CUE) / (len(cues) - 1))
    scores = [count * own + (sum(counts) - count) * other for count in counts]
    return SUBJECTS[subject][scores.index(max(scores))]
