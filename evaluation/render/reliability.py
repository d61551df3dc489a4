"""Reliability diagrams as inline SVG: what was forecast against how often it came true."""

from __future__ import annotations

from ..calibration import Calibration
from .curves import INK, LINES, MUTED, figure_svg


def reliability_svg(title: str, found: Calibration) -> str:
    """A reliability diagram as an `<svg>` element: a dot for each bin with its 95 % interval, larger where it holds
    more forecasts; on the diagonal they are calibrated.

    Parameters
    ----------
    title : str
    found : Calibration
    """

    def draw(axes) -> None:
        filled = [part for part in found.bins if part.n]
        most = max((part.n for part in filled), default=1)
        axes.plot([0, 1], [0, 1], color=MUTED, linewidth=1, linestyle=(0, (4, 3)))
        for part in filled:
            axes.plot([part.forecast] * 2, [part.observed_low, part.observed_high], color=LINES[0], linewidth=1)
            size = 3 + 6 * (part.n / most) ** 0.5
            axes.plot(part.forecast, part.observed, "o", color=LINES[0], markersize=size)
        axes.set_xlim(-0.02, 1.02)
        axes.set_ylim(-0.02, 1.02)
        axes.set_xlabel("forecast", fontsize=9, color=INK)
        axes.set_ylabel("came true", fontsize=9, color=INK)

    return figure_svg(f"{title}: ECE {found.ece.value:.3f}", draw, size=(3.4, 3.1))
