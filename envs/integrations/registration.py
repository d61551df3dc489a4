"""The environments' names in the registries of Gymnasium and of the cookbook, found without importing an environment.

Importing an environment takes seconds, because the cookbook imports torch; importing Gymnasium must not wait for that.
"""

import re
from pathlib import Path

from .. import installed_environments

ENVS = Path(__file__).resolve().parent.parent
DECLARATION = re.compile(r'^    env_id(?:: [^=\n]+)? = "([^"]+)"$', re.MULTILINE)

VERSIONED = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*-v\d+")


def env_ids() -> list[str]:
    """The ids that the files of `envs` and entry points of other packages declare, in order; none is imported."""
    texts = (path.read_text(encoding="utf-8") for path in ENVS.glob("*.py"))
    installed = {entry.name for entry in installed_environments() if VERSIONED.fullmatch(entry.name)}
    return sorted({env_id for text in texts for env_id in DECLARATION.findall(text)} | installed)


def gymnasium_name(env_id: str) -> str:
    """Name in Gymnasium's namespace ``scisci``.

    Examples
    --------
    >>> gymnasium_name("hit-paper-forecast-v0"), gymnasium_name("cd-forecast-v0")
    ('HitPaperForecast-v0', 'CdForecast-v0')
    """
    name, _, version = env_id.rpartition("-")
    return "".join(part.capitalize() for part in name.split("-")) + f"-{version}"


def benchmark_name(env_id: str) -> str:
    """Name in the cookbook's registry: ``"disruption-v0"`` -> ``"scisci_disruption"``; later versions keep theirs.

    Examples
    --------
    >>> benchmark_name("hit-paper-forecast-v0"), benchmark_name("disruption-v2")
    ('scisci_hit_paper_forecast', 'scisci_disruption_v2')
    """
    return "scisci_" + env_id.removesuffix("-v0").replace("-", "_")


def register_envs() -> None:
    """Register every environment with Gymnasium, in the namespace ``scisci``. Calling it again changes nothing."""
    import gymnasium

    for env_id in env_ids():
        name = f"scisci/{gymnasium_name(env_id)}"
        if name not in gymnasium.registry:
            gymnasium.register(
                id=name,
                entry_point=f"{__package__}.gymnasium:SciSciGymnasiumEnv",
                kwargs={"env_id": env_id},
                # The checker of `make` would warn about the space of texts in every episode.
                disable_env_checker=True,
                order_enforce=False,
            )
