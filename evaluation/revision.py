"""Which revision of the code made a result."""

from __future__ import annotations

import subprocess
from pathlib import Path


def git_revision() -> str | None:
    """Revision of the code, with ``+`` where files differ from it; None outside a checkout."""
    root = Path(__file__).resolve().parent.parent
    try:
        shown = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty=+", "--abbrev=12"],
            capture_output=True,
            text=True,
            timeout=10,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return shown.stdout.strip()
