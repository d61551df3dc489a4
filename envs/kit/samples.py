"""Nine invented papers, one for every pair of disruption and novelty label: for checks, examples and first steps.

No text here is of a real paper, and no number was measured.
"""

from ...datasets.paper import COLUMNS, DISRUPTION_LABELS, NOVELTY_LABELS, Paper, Role

_CD = dict(zip(DISRUPTION_LABELS, (0.42, -0.31, 0.03), strict=True))
_COUNTS = dict(zip(DISRUPTION_LABELS, ((52, 10, 38), (10, 41, 49), (20, 17, 63)), strict=True))
_NOVELTY = dict(zip(NOVELTY_LABELS, ((0.91, 0.22), (0.18, 0.88), (0.47, 0.51)), strict=True))
_PERCENTILE = {"disruptive": 0.97, "consolidating": 0.7, "neutral": 0.3}

_FIELDS = (("Hydrology", 2003), ("Acoustics", 2008), ("Botany", 2012))
# Venue, title and abstract of the papers of each field: one disruptive, one consolidating, one neutral.
_TEXTS = (
    (
        "Journal of Made-up Rivers",
        "A river that runs uphill: siphon flow under a glacier",
        "We report the first direct observation of sustained uphill flow beneath an ice cap. The finding overturns "
        "the assumption that subglacial water follows the bed. Unlike earlier accounts, ours needs no pressurised "
        "lake. An unexpected role of dissolved air explains why the effect was overlooked.",
    ),
    (
        "Annals of Catchments",
        "Runoff coefficients for forty catchments: an extended calibration",
        "We extend the established calibration of runoff coefficients to forty further catchments. The results "
        "confirm previous estimates within their uncertainty. We refine the standard correction for snowmelt and "
        "review how it is used. The improved coefficients are consistent with existing flood records.",
    ),
    (
        "Annals of Catchments",
        "Salinity of a tidal delta in a dry year",
        "This survey describes salinity in one tidal delta during a dry year. Samples were taken monthly at twelve "
        "stations. We compare the measurements with local rainfall data. The data are available for further use.",
    ),
    (
        "Proceedings on Sound",
        "Silence as a material: absorbing sound with counted bubbles",
        "We introduce a new class of absorbers made of a known number of bubbles in a gel. Their action cannot be "
        "derived from the theory of porous media, which they replace at low frequencies. A novel count rule "
        "predicts the absorption without any fitted constant. We discover a regime in which less material absorbs "
        "more.",
    ),
    (
        "Journal of Made-up Echoes",
        "Reverberation in concert halls: a review and a refined standard",
        "We review sixty years of reverberation measurements in concert halls. Building on the existing standard, "
        "we refine its treatment of audience absorption. The refined formula improves agreement with known halls. "
        "It is based on the same framework and confirms its main conclusions.",
    ),
    (
        "Proceedings on Sound",
        "Noise levels at a railway station before and after renovation",
        "We evaluate noise levels at one railway station before and after its renovation. Measurements were made "
        "on twenty days. The report compares three positions on the platform. Differences between positions exceed "
        "differences between years.",
    ),
    (
        "Invented Plant Letters",
        "Mosses that keep time without light",
        "We discover a daily rhythm in a moss grown for ninety generations in the dark. The rhythm contradicts the "
        "view that plant clocks are set by light. An alternative pacemaker, driven by the cell wall, reproduces "
        "it. This is the first clock found in a plant without leaves.",
    ),
    (
        "Annals of Roots",
        "Root growth under drought: generalizing a two-layer model",
        "We generalize a known two-layer model of root growth to soils with three layers. The extension is "
        "consistent with previous drought experiments. Existing parameters carry over without change. We confirm "
        "the established optimum of rooting depth.",
    ),
    (
        "Annals of Roots",
        "A catalogue of lichens on one sandstone wall",
        "We present a catalogue of the lichens on a single sandstone wall. The survey lists thirty-one species "
        "with their cover. A simple sampling tool is described. The case may serve as a local reference.",
    ),
)


def sample_papers() -> list[Paper]:
    """The papers, three to a field and year: one disruptive, one consolidating, one neutral in each."""
    papers = []
    for index, (venue, title, abstract) in enumerate(_TEXTS):
        field, year = _FIELDS[index // 3]
        label = DISRUPTION_LABELS[index % 3]
        novelty, conventionality = _NOVELTY[NOVELTY_LABELS[(index // 3 + index) % 3]]
        stated = {
            "openalex_id": f"W900000000{index + 1}",
            "title": title,
            "abstract": abstract,
            "publication_year": year,
            "publication_date": f"{year}-0{1 + index % 9}-15",
            "venue": venue,
            "primary_field": field,
            "authors_count": 1 + index % 4,
            "reference_titles": (f"Foundations of {field.lower()}", f"A handbook of {field.lower()}"),
            "cd_index": _CD[label],
            **dict(zip(("n_i", "n_j", "n_k"), _COUNTS[label], strict=True)),
            "novelty_score": novelty,
            "conventionality_score": conventionality,
            "citation_percentile": _PERCENTILE[label],
            "hit_share": 1 / len(DISRUPTION_LABELS),
        }
        papers.append(Paper(**{**_spread(index), **stated}))
    return papers


def _spread(index: int) -> dict[str, float]:
    """Numbers for outcomes that are not stated above, such as those of a field that is new: each paper has its own."""
    numbers: dict[str, float] = {}
    for name, column in COLUMNS.items():
        if column.role is Role.OUTCOME and column.low is not None:
            high = 100 if column.high is None else column.high
            value = column.low + (high - column.low) * (index + 1) / (len(_TEXTS) + 1)
            numbers[name] = value if column.stored == "float64" else int(value)
    return numbers
