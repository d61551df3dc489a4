"""What an experiment compares: its arms, what each starts from, and how each is trained.

The plan of several studies is a TOML file: arms, and one study for each corpus, task and number of papers.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from ...datasets.errors import BadInput
from ...envs.registry import spec
from ...evaluation.baselines import SIMPLE, baseline_names
from ...evaluation.comparison import METRICS
from ...evaluation.learned_baselines import METADATA_TFIDF
from ..kit.config import RecipeConfig, is_known_model
from .runner import RECIPES, config_of, require_option


@dataclass(frozen=True)
class Arm:
    """A way to obtain a policy: a recipe (a name of `RECIPES`, or None for the base model as it is) with its options,
    and the arm whose chosen checkpoint it starts from (None for the base model)."""

    name: str
    title: str
    recipe: str | None = None
    start: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


TINY: dict[str, Any] = {"max_tokens": 12, "lora_rank": 16}
# Random labels teach the answer format: these rows make it certain and are far too few to learn by heart.
FORMAT = {**TINY, "answers": "random", "rows": 480, "learning_rate": 5e-4, "batch_size": 32}
_LARGE_RL = {"groups_per_batch": 32, "group_size": 8, "max_steps": 100}
LARGE: dict[str, dict[str, Any]] = {
    "sft": {"num_epochs": 2, "batch_size": 32, "save_every": 25},
    "rl": _LARGE_RL,
    "sft_rl": {**_LARGE_RL, "kl_penalty_coef": 0.05},
    "dpo": {"learning_rate": 1e-5, "num_epochs": 1, "batch_size": 32, "pairs": "sampled"},
}


def tiny_rl(learning_rate: float, groups_per_batch: int, max_steps: int, **options: Any) -> dict[str, Any]:
    """Options of RL on a tiny model, in groups of 8."""
    options |= {"learning_rate": learning_rate, "groups_per_batch": groups_per_batch, "max_steps": max_steps}
    return {**TINY, "group_size": 8, **options}


def tiny_sft(learning_rate: float, num_epochs: int = 8, **options: Any) -> dict[str, Any]:
    """Options of SFT and DPO on a tiny model, in batches of 32."""
    return {**TINY, "learning_rate": learning_rate, "num_epochs": num_epochs, "batch_size": 32, **options}


TINY_SYNTHETIC = {
    "format": {**FORMAT, "validation_examples": 0},
    "sft": tiny_sft(2e-3, save_every=50),
    "rl": tiny_rl(2e-3, 16, 120, kl_penalty_coef=0.1),
    "sft_rl": tiny_rl(5e-4, 16, 60),
    "dpo": tiny_sft(2e-3, num_epochs=4, dpo_beta=0.1),
}
# On real text accuracy and macro-F1 disagree: a policy that is paid for correct answers stops naming the middle label.
# RL on top of SFT is therefore slow, and the shares of the labels adapt to its answers. RL from the answer format keeps
# equal shares: greedy answers of a nearly uniform policy are all the same label, and adapted shares swing (tried).
TINY_REAL = {
    "format": {**FORMAT, "validation_examples": 0},
    "sft": tiny_sft(1e-3, save_every=32),
    "rl": tiny_rl(1e-3, 32, 60, kl_penalty_coef=0.1, balance_labels="equal"),
    "sft_rl": tiny_rl(1e-4, 32, 60, balance_labels="adaptive", eval_every=5, save_every=5),
    "dpo": tiny_sft(5e-4, num_epochs=2, dpo_beta=0.1),
}


def arms_for(model_name: str, synthetic: bool) -> tuple[Arm, ...]:
    """The arms of a study, with training options that suit the model and the corpus.

    A model that the cookbook knows by name gets the cookbook's learning rates. Any other is taken for a tiny model,
    which has to learn the answer format before RL can begin. The wording of a synthetic corpus is a strong sign of the
    label. On real text the signal is weak, and fast RL loses a label for good.
    """
    known = is_known_model(model_name)
    options = LARGE if known else TINY_SYNTHETIC if synthetic else TINY_REAL
    start, origin = (None, "the base model") if known else ("format", "the answer format")
    taught = () if known else (Arm("format", "answer format only", "sft", None, options["format"]),)
    return (
        Arm("base", "base model"),
        *taught,
        Arm("sft", "SFT on the labels", "sft", None, options["sft"]),
        Arm("rl", f"RL from {origin}", "rl", start, options["rl"]),
        Arm("sft_rl", "SFT, then RL", "rl", "sft", options["sft_rl"]),
        Arm("dpo", f"DPO from {origin}", "dpo", start, options["dpo"]),
    )


# The comparisons that a study is made for, where it has these arms: RL against SFT, from either start; what RL adds to
# SFT; and each against the linear baseline.
LINEAR = "TF-IDF + logistic"
PAIRS = (("rl", "sft"), ("sft_rl", "sft"), ("dpo", "sft"), ("sft_rl", "rl"))
AGAINST_LINEAR = ("sft", "rl", "sft_rl", "dpo")
COMPARISONS = (*PAIRS, *((arm, LINEAR) for arm in AGAINST_LINEAR))


@dataclass(frozen=True)
class StudyPlan:
    """Arms, in the order in which they are trained, seeds and papers of an experiment. Two experiments with the same
    plan train the same runs.

    Arms are compared on `max_examples` papers of `split`; checkpoints are always chosen on `validation_examples`
    validation papers (None for all). The adversarial evaluation has `flip_examples` papers; 0 leaves it out.

    With `train_papers`, arms and baselines learn from so many training papers, which the seed draws; arms that have an
    option `rows` keep it. `comparisons` are pairs of arms or `baselines`, of which those count that the study has; they
    are made in `metric`, a name of `METRICS`. The study's question is answered with yes if the first arm is better in
    all pairs of `primary`. Without `sampled`, policies answer greedily only; without `probabilities`, they are not
    asked for those of the labels, which takes a pass for every label.
    """

    dataset: str
    model_name: str
    arms: tuple[Arm, ...]
    env: str = "disruption-v0"
    env_options: str = ""
    renderer_name: str | None = None
    seeds: tuple[int, ...] = (0, 1, 2)
    split: str = "test"
    flip_examples: int = 300
    validation_examples: int | None = None
    max_examples: int | None = None
    train_papers: int | None = None
    metric: str = "macro_f1"
    baselines: tuple[str, ...] = SIMPLE
    comparisons: tuple[tuple[str, str], ...] = COMPARISONS
    primary: tuple[tuple[str, str], ...] = ()
    sampled: bool = True
    probabilities: bool = True

    @property
    def trained(self) -> tuple[Arm, ...]:
        """The arms that are trained: all but the base model."""
        return tuple(arm for arm in self.arms if arm.recipe)

    def arm(self, name: str) -> Arm:
        """The arm of this name."""
        return next(arm for arm in self.arms if arm.name == name)

    def folder(self, out: Path, arm: Arm, seed: int) -> Path:
        """Folder of the run of an arm with a seed."""
        return out / f"seed{seed}" / arm.name

    def config(self, out: Path, arm: Arm, seed: int) -> RecipeConfig:
        """Options of the recipe for the run of an arm with a seed.

        Raises `ValueError` if an option of the arm does not fit its recipe.
        """
        assert arm.recipe is not None
        options = {
            "dataset": self.dataset,
            "model_name": self.model_name,
            "env": self.env,
            "env_options": self.env_options,
            "renderer_name": self.renderer_name,
            "validation_examples": self.validation_examples,
            "checkpoints": str(out / "checkpoints"),
            **({} if self.train_papers is None else {"rows": self.train_papers}),
            **arm.options,
            "log_path": str(self.folder(out, arm, seed)),
            "seed": seed,
        }
        if arm.start is not None:
            options["load_checkpoint_path"] = str(self.folder(out, self.arm(arm.start), seed))
        return config_of(arm.recipe, options)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values."""
        return asdict(self)

    @classmethod
    def later(cls) -> dict[str, Any]:
        """What the plans of earlier versions do not say, as they had it."""
        names = ("train_papers", "metric", "baselines", "comparisons", "primary", "sampled", "probabilities")
        return {each.name: each.default for each in fields(cls) if each.name in names}


class OneSeedPlan(StudyPlan):
    """A study with one seed, whose runs lie side by side in its folder."""

    def folder(self, out: Path, arm: Arm, seed: int) -> Path:
        """Folder of the run of an arm."""
        return out / arm.name


def chosen_arms(arms: Sequence[Arm], names: Sequence[str]) -> tuple[Arm, ...]:
    """The arms of these names, and those that they start from.

    Raises `ValueError` if there is no arm of a name.
    """
    by_name = {arm.name: arm for arm in arms}
    chosen: set[str] = set()
    for name in names:
        if name not in by_name:
            raise ValueError(f"a study has no arm {name!r}; it has {', '.join(by_name)}")
        needed: str | None = name
        while needed is not None:
            chosen.add(needed)
            needed = by_name[needed].start
    return tuple(arm for arm in arms if arm.name in chosen)


def with_options(arms: Sequence[Arm], arguments: Sequence[str]) -> tuple[Arm, ...]:
    """Arms with options from ``ARM.option=value`` arguments.

    Raises `ValueError` if an argument has another form, or names an arm or an option that does not exist.
    """
    by_name = {arm.name: arm for arm in arms}
    for argument in arguments:
        path, equals, value = argument.partition("=")
        name, dot, option = path.partition(".")
        if not equals or not dot:
            raise ValueError(f"options of an arm are ARM.option=value, such as rl.max_steps=60; got {argument!r}")
        arm = by_name.get(name)
        if arm is None or arm.recipe is None:
            trained = ", ".join(each.name for each in arms if each.recipe)
            raise ValueError(f"{argument!r}: no trained arm {name!r}; there are {trained}")
        require_option(arm.recipe, option, argument)
        by_name[name] = replace(arm, options={**arm.options, option: value})
    return tuple(by_name[arm.name] for arm in arms)


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
_FLAG = ("true or false", lambda value: isinstance(value, bool))
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
    "sampled": ("sampled", *_FLAG),
    "probabilities": ("probabilities", *_FLAG),
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
