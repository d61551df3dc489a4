"""The plan of several studies as a TOML file: arms, and one study for each corpus, task and number of papers."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...datasets.errors import BadInput
from ...envs.registry import spec
from ...evaluation.baselines import baseline_names
from ...evaluation.comparison import METRICS
from ...evaluation.learned_baselines import METADATA_TFIDF
from .plan import Arm, StudyPlan, chosen_arms, with_options
from .runner import RECIPES, require_option


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)


def _is_pairs(value: Any) -> bool:
    return isinstance(value, list) and all(_is_texts(each) and len(each) == 2 for each in value)


def _is_seeds(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(map(_is_count, value)) and len({*value}) == len(value)


_TEXT = ("a text", lambda value: isinstance(value, str))
_LIMIT = ('a number of at least 1, or "all"', lambda value: value == "all" or (_is_count(value) and value > 0))
_PAIRS = ("a list of pairs of arms or baselines", _is_pairs)
_TEXTS = ("a list of texts", _is_texts)
# Key of a study -> the field of its `StudyPlan`, what its value is, and whether a value is that.
_KEYS: dict[str, tuple[str, str, Callable[[Any], bool]]] = {
    "dataset": ("dataset", *_TEXT),
    "model": ("model_name", *_TEXT),
    "renderer": ("renderer_name", *_TEXT),
    "env": ("env", *_TEXT),
    "env_options": ("env_options", *_TEXT),
    "seeds": ("seeds", "a list of different whole numbers of at least 0", _is_seeds),
    "flip_examples": ("flip_examples", "a whole number of at least 0", _is_count),
    "validation_examples": ("validation_examples", *_LIMIT),
    "max_examples": ("max_examples", *_LIMIT),
    "train_papers": ("train_papers", *_LIMIT),
    "sampled": ("sampled", "true or false", lambda value: isinstance(value, bool)),
    "metric": ("metric", f"one of {', '.join(METRICS)}", lambda value: isinstance(value, str) and value in METRICS),
    "baselines": ("baselines", *_TEXTS),
    "primary": ("primary", *_PAIRS),
    "comparisons": ("comparisons", *_PAIRS),
    "arms": ("arms", *_TEXTS),
    "options": ("", *_TEXTS),
}
_ARM_KEYS = ("title", "recipe", "start", "options")


def read_plans(path: Path, split: str = "test") -> dict[str, StudyPlan]:
    """The studies of a plan file by name, in its order.

    The file has a table ``[arms.NAME]`` for every arm (title, recipe, start, options), a table ``[[studies]]`` for
    every study (name, dataset, model and other keys), and a table ``[all]`` with keys of all studies. ``options`` of a
    study are those of its arms, as on the command line: ``["rl.max_steps=60"]``. Folders are relative to where the
    command is run.

    Raises `BadInput`, which names the file, the table and the key, if one is missing, unknown or of the wrong kind, and
    `FileNotFoundError` if there is no file.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no plan {path}; docs/study-plan.toml is an example")
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: {error}; a plan is a TOML file") from error
    _known(path, "the top", content, ("all", "arms", "studies"))
    arms = _arms(path, content.get("arms", {}))
    shared, studies = content.get("all", {}), content.get("studies", [])
    if not isinstance(studies, list) or not studies or not all(isinstance(each, dict) for each in studies):
        raise BadInput(f"{path}: it has no [[studies]], each with a name, a dataset and a model")
    plans: dict[str, StudyPlan] = {}
    for number, study in enumerate(studies, 1):
        name = study.get("name")
        if not isinstance(name, str) or not name or name in plans or Path(name).name != name:
            raise BadInput(
                f"{path}, study {number}: name={name!r}; it needs a name of its own, which is that of its folder"
            )
        keys = {**_checked(path, "[all]", shared), **_checked(path, f"study {name!r}", study)}
        plans[name] = _plan(path, name, keys, arms, split)
    return plans


def _known(path: Path, where: str, table: Any, names: Sequence[str]) -> None:
    if not isinstance(table, dict):
        raise BadInput(f"{path}, {where}: it is {table!r}, not a table of keys")
    for key in table:
        if key not in names:
            similar = get_close_matches(key, names, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"there are {', '.join(names)}"
            raise BadInput(f"{path}, {where}: there is no key {key!r}; {hint}")


def _checked(path: Path, where: str, table: Mapping[str, Any]) -> dict[str, Any]:
    _known(path, where, table, ("name", *_KEYS) if where != "[all]" else tuple(_KEYS))
    for key, value in table.items():
        if key != "name" and not _KEYS[key][2](value):
            raise BadInput(f"{path}, {where}: {key}={value!r}; it has to be {_KEYS[key][1]}")
    return {key: value for key, value in table.items() if key != "name"}


def _arms(path: Path, tables: Any) -> tuple[Arm, ...]:
    _known(path, "arms", tables, tuple(tables) if isinstance(tables, dict) else ())
    arms: dict[str, Arm] = {}
    for name, table in tables.items():
        where = f"arms.{name}"
        _known(path, where, table, _ARM_KEYS)
        recipe, start, options = (table.get(key) for key in _ARM_KEYS[1:])
        if recipe is not None and recipe not in RECIPES:
            raise BadInput(f"{path}, {where}: recipe={recipe!r}; there are {', '.join(RECIPES)}")
        if start is not None and (start not in arms or arms[start].recipe is None):
            before = ", ".join(arm.name for arm in arms.values() if arm.recipe) or "none"
            raise BadInput(f"{path}, {where}: start={start!r} is no trained arm above it; those are {before}")
        if recipe is None and (start or options):
            raise BadInput(f"{path}, {where}: an arm without a recipe is not trained, so it has no start and options")
        for option in options or {}:
            try:
                require_option(str(recipe), option)
            except ValueError as error:
                raise BadInput(f"{path}, {where}.options: {error}") from error
        arms[name] = Arm(name, str(table.get("title", name)), recipe, start, options or {})
    if not arms:
        raise BadInput(f"{path}: it has no arms; each is a table [arms.NAME]")
    return tuple(arms.values())


def _plan(path: Path, name: str, keys: dict[str, Any], arms: Sequence[Arm], split: str) -> StudyPlan:
    for needed in ("dataset", "model"):
        if needed not in keys:
            raise BadInput(f"{path}, study {name!r}: it has no {needed}")
    try:
        chosen = with_options(arms, keys.pop("options", []))
        chosen = chosen_arms(chosen, keys.pop("arms", [arm.name for arm in chosen]))
        values: dict[str, Any] = {
            _KEYS[key][0]: None if value == "all" else _tuples(value) for key, value in keys.items()
        }
        plan = StudyPlan(arms=chosen, split=split, **values)
        baselines = [*baseline_names(spec(plan.env)), METADATA_TFIDF.name]
    except ValueError as error:
        raise BadInput(f"{path}, study {name!r}: {error}") from error
    # A study may leave out arms, so a comparison of one that only other studies have is no mistake.
    compared = (
        {each for pair in (*plan.primary, *plan.comparisons) for each in pair} if "comparisons" in keys else set()
    )
    for key, given, there in (
        ("baselines", plan.baselines, baselines),
        ("comparisons", compared, [*(arm.name for arm in arms), *baselines]),
    ):
        for each in sorted(set(given) - set(there)):
            raise BadInput(f"{path}, study {name!r}: {key} name {each!r}; there are {', '.join(there)}")
    return plan


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
