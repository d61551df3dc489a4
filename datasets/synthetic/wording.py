"""The words of the synthetic corpus. Cue words are ordinary nouns: knowing English is of no use for them."""

from __future__ import annotations

from collections.abc import Sequence

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


def cue_words(subject: str = "disruption") -> tuple[Sequence[str], ...]:
    """Six cue words for each of the labels of a subject (disruption, novelty or hit), in the order of its labels."""
    return tuple(words.split() for words in _CUES[subject])
