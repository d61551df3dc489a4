"""Disruption: the CD index, its variants, and how robust they are. Labels are cut from them in `datasets/labels`."""

from .cd_index import cd_index, disruption_counts

__all__ = ["cd_index", "disruption_counts"]
