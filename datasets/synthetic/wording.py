"""The words of the synthetic corpus. Cue words are ordinary nouns: a model that knows English gains nothing by it."""

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

_CUES = (
    "amber birch copper falcon granite harbor".split(),
    "juniper lantern marble nectar orchid pebble".split(),
    "quartz raven saffron timber velvet willow".split(),
)


def cue_words() -> tuple[Sequence[str], Sequence[str], Sequence[str]]:
    """Six cue words for each of the styles disruptive, consolidating and neutral, in that order."""
    disruptive, consolidating, neutral = _CUES
    return disruptive, consolidating, neutral
