"""What came out of a run. The terminal, the report, the experiment record, the register, sweeps and studies show it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from ...envs.registry import spec, specs
from ...evaluation.render.figures import mean_of
from . import metrics as m
from .alarms import Alarm, history
from .record import RunState, read_state

# The questions of runs that were given none.
QUESTIONS = {
    "rl": "How well does {start} answer {env} after RL with the verifiable reward?",
    "sft": "How well does {start} answer {env} after imitating {answers} answers?",
    "dpo": "How well does {start} answer {env} after DPO on pairs of right and wrong answers?",
}
OTHER_QUESTION = "How well does {start} answer {env} after training with the recipe {recipe}?"

ENDS = 10
"""The number of steps at the start, and at the end, of which means are taken."""


@dataclass(frozen=True)
class Cost:
    """Tokens and time of one run, from its own metrics; the tokens of evaluations are not counted.

    `trained` are the tokens that went through forward and backward passes, prompts included; `sampled` those that were
    generated, and `read` the prompt tokens read for that. `seconds` are those from start to end, with validation.
    """

    trained: int
    sampled: int
    read: int
    seconds: float


@dataclass(frozen=True)
class RunSummary:
    """What came out of a run, at one moment.

    `evaluations` has for each split the JSON that `scisci-gym eval` wrote into the run's folder about its policy.
    """

    state: RunState
    evaluations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: str | Path) -> RunSummary:
        """The summary of the run in a folder; raises `FileNotFoundError` if there is none."""
        paths = sorted(Path(folder).glob("eval_*.json"))
        evaluations = {path.stem.removeprefix("eval_"): json.loads(path.read_text()) for path in paths}
        return cls(read_state(folder), {split: each for split, each in evaluations.items() if "policy" in each})

    @cached_property
    def measures(self) -> dict[m.Measure, m.Summary]:
        """The measures that the run logs, in the order of `MEASURES`."""
        summaries = {measure: m.summary(self.state.rows, measure) for measure in m.MEASURES}
        return {measure: values for measure, values in summaries.items() if values is not None}

    @cached_property
    def labels(self) -> dict[str, tuple[float, float | None]]:
        """Label -> its share among the last answers, and among the right ones if that is logged."""
        rows = self.state.rows
        points = {
            label: [m.finite(rows, kind + label) for kind in (m.PREDICTED, m.EXPECTED)] for label in m.labels_of(rows)
        }
        return {label: (said[-1][1], right[-1][1] if right else None) for label, (said, right) in points.items()}

    @cached_property
    def past_alarms(self) -> list[tuple[Alarm, int, int]]:
        """Alarms that are no longer on, each with the first and the last step at which it was."""
        on = {alarm.name for alarm in self.state.alarms}
        return [span for span in history(self.state.rows) if span[0].name not in on]

    @property
    def question(self) -> str:
        """See `question_of`."""
        return question_of(self.state.record)

    @property
    def validation(self) -> m.Measure:
        """See `validation_measure`."""
        return validation_measure(self.state.config.get("env"), self.state.config.get("choose_by"))

    @property
    def best_validation(self) -> tuple[int, float] | None:
        """Step and value of the best score on validation papers."""
        return values.best if (values := self.measures.get(self.validation)) else None

    @property
    def cost(self) -> Cost:
        """Tokens and time."""
        sampled, read, supervised = (
            int(sum(value for _, value in m.finite(self.state.rows, name)))
            for name in ("env/all/total_ac_tokens", "env/all/total_ob_tokens", "num_tokens")
        )
        # RL trains on what was read and sampled; groups without signal go through the passes all the same.
        seconds = float(self.state.record.get("seconds", 0.0))
        return Cost(supervised or sampled + read, sampled, read, seconds)

    def ends(self, key: str) -> tuple[float, float] | None:
        """Means of a metric over the first `ENDS` steps that have it, and over the last; None if none has."""
        points = [value for _, value in m.finite(self.state.rows, key)]
        return (mean_of(points[:ENDS]), mean_of(points[-ENDS:])) if points else None


def question_of(record: Mapping[str, Any]) -> str:
    """The question that a run is to answer: its option `question`, or the general question of its recipe."""
    config = record.get("config", {})
    if config.get("question"):
        return str(config["question"])
    recipe = str(record.get("recipe", "unknown"))
    start = config.get("load_checkpoint_path")
    return QUESTIONS.get(recipe, OTHER_QUESTION).format(
        recipe=recipe,
        env=config.get("env", "?"),
        start=f"the policy of {start}" if start else "the base model",
        answers="randomly drawn" if config.get("answers") == "random" else "the gold",
    )


def engine_text(engine: Mapping[str, Any]) -> str:
    """Where a run was computed, from the ``engine`` of its record: as in ``local; cpu, bfloat16, 2 threads, lora``."""
    count = engine.get("threads")
    threads = "" if count is None else "1 thread" if count == 1 else f"{count} threads"
    quantized = engine.get("quantize", "none")
    parts = [engine.get("device"), engine.get("dtype"), threads, engine.get("adapter"), quantized]
    place = engine["url"] if engine["kind"] == "url" else engine["kind"]
    return "; ".join(filter(None, [place, ", ".join(str(part) for part in parts if part and part != "none")]))


def facts_of(state: RunState) -> list[tuple[str, str]]:
    """(name, value) of the facts that a record states about a run, as plain text."""
    record, data = state.record, state.record.get("dataset", {})
    revision = str(record.get("revision"))
    dirty = " with uncommitted changes" if revision.endswith("+") else ""
    rows = [
        ("Recipe, environment", f"{record.get('recipe')}, {state.config.get('env')}"),
        ("Base model", str(state.config.get("model_name"))),
        ("Dataset", f"{data.get('folder')}, content hash {data.get('content_hash')}"),
        ("Code", f"{revision.removesuffix('+')}{dirty}"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items())),
        *([("Engine", engine_text(record["engine"]))] if record.get("engine") else []),
        ("Command", " ".join(record.get("command", []))),
        ("Started, ended (UTC)", f"{record.get('started')}, {record.get('ended') or 'not yet'}"),
        ("Training time", f"{record.get('seconds', 0.0):.0f} s"),
    ]
    for resumption in record.get("resumptions", []):
        updates = resumption.get("updates_before", "?")
        text = f"{resumption['started']}; the run was {resumption['was']} and had made {updates} updates"
        if resumption.get("revision") != record.get("revision"):
            text += f"; code {resumption.get('revision')}"
        changed = ", ".join(f"{name} {old!r} -> {new!r}" for name, (old, new) in resumption["changed"].items())
        rows.append(("Resumed", f"{text}; changed: {changed}" if changed else text))
    return rows


@dataclass(frozen=True)
class Constant:
    """Scores on a split of the most common label of the training split, given as a constant answer."""

    label: str
    accuracy: float
    macro_f1: float


def majority_of(splits: Mapping[str, Any], labels: Sequence[str], split: str) -> Constant | None:
    """Scores of the majority label, from the label counts of a dataset's card; None if the card has other labels.

    With p the label's share in the split and K labels, accuracy is p; the label's F1 is 2p / (1 + p) (precision p,
    recall 1), that of the others 0, so macro-F1 is 2p / ((1 + p) K).

    Examples
    --------
    >>> counts = {"papers": 10, "labels": {"a": 5, "b": 5}}
    >>> majority_of({"train": counts, "test": counts}, ("a", "b"), "test")
    Constant(label='a', accuracy=0.5, macro_f1=0.3333333333333333)
    """
    for kind in ("labels", "novelty_labels"):
        counts = {name: share.get(kind, {}) for name, share in splits.items()}
        if not labels or not set(labels) <= set(counts.get("train", {})) & set(counts.get(split, {})):
            continue
        papers = sum(counts[split][label] for label in labels)
        if papers:
            label = max(labels, key=lambda name: counts["train"][name])
            share = counts[split][label] / papers
            return Constant(label, share, 2 * share / (1 + share) / len(labels))
    return None


def validation_measure(env_id: str | None, choose_by: str | None = None) -> m.Measure:
    """The validation score that checkpoints are chosen by: the run's option `choose_by`, if it was given.

    Otherwise it is macro-F1 where a label is asked for (also where the environment is not installed), and the mean
    reward where a forecast is, whose label is only what it comes closest to.
    """
    if choose_by is not None:
        return {"macro_f1": m.VALIDATION, "mcc": m.VALIDATION_MCC}[choose_by]
    forecasts = {env_class.env_id for env_class in specs() if env_class.asks_for != "label"}
    return m.VALIDATION_REWARD if env_id in forecasts else m.VALIDATION


def comparison_sentence(run: RunSummary) -> str:
    """The best validation score, compared with the majority label and, on a synthetic corpus, the best possible one."""
    if run.best_validation is None:
        return "No validation scores."
    (step, best), record = run.best_validation, run.state.record
    text = f"Best {run.validation.title} is {best:.3f} (step {step})"
    if run.validation is not m.VALIDATION:
        return f"{text}."
    data, env_id = record.get("dataset", {}), str(record.get("config", {}).get("env"))
    labels = next((env_class.labels for env_class in specs() if env_class.env_id == env_id), ())
    constant = majority_of(data.get("splits", {}), labels, "validation")
    if constant is not None:
        text += (
            f"; always answering {constant.label!r} gives {constant.macro_f1:.3f} on all of validation "
            f"(accuracy {constant.accuracy:.3f})"
        )
    elif labels:
        count = len(labels)
        text += f"; with {count} equally common labels, always answering one gives {2 / (1 + count) / count:.3f}"
    # The ceiling of a synthetic corpus is about disruption labels.
    if "ceiling" in data and labels and labels == spec("disruption-v0").labels:
        text += f"; a perfect reader of this corpus gets {data['ceiling']['validation']['macro_f1']:.3f}"
    return text + "."
