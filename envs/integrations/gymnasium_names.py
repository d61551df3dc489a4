"""How the environments are called in Gymnasium. Apart from the door itself, which cannot be imported without it."""


def gymnasium_name(env_id: str) -> str:
    """Name without the namespace ``scisci``.

    Examples
    --------
    >>> gymnasium_name("hit-paper-forecast-v0"), gymnasium_name("cd-forecast-v0")
    ('HitPaperForecast-v0', 'CdForecast-v0')
    """
    name, _, version = env_id.rpartition("-")
    return "".join(part.capitalize() for part in name.split("-")) + f"-{version}"
