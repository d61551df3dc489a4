"""`EXPERIMENT.md`: question, configuration, code revision, metrics of one run, and its comparison with baselines."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_text_atomically
from ...envs.registry import spec, specs
from ...evaluation.records import without_secrets
from ...evaluation.render.figures import shown
from .alarms import history
from .metrics import KEY_MEASURES, VALIDATION, Row, point_text, summary
from .record import RunState, read_evaluations, read_state

EXPERIMENT = "EXPERIMENT.md"
# The questions of runs that were given none.
QUESTIONS = {
    "rl": "How well does {start} answer {env} after RL with the verifiable reward?",
    "sft": "How well does {start} answer {env} after imitating {answers} answers?",
    "dpo": "How well does {start} answer {env} after DPO on pairs of right and wrong answers?",
}
OTHER_QUESTION = "How well does {start} answer {env} after training with the recipe {recipe}?"


def write_experiment(folder: str | Path) -> Path:
    """Write the experiment record of a run from the present content of its folder, and return its path."""
    text = experiment_text(read_state(folder), read_evaluations(folder))
    return write_text_atomically(Path(folder) / EXPERIMENT, without_secrets(text))


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


def experiment_text(state: RunState, evaluations: Mapping[str, Mapping[str, Any]]) -> str:
    """The record as Markdown. Values from configurations stand in code blocks."""
    record = state.record
    error = f" It ended with `{_code(record['error'])}`." if record.get("error") else ""
    on = {alarm.name for alarm in state.alarms}
    alarms = [f"- {alarm.level}: {alarm.name} (step {alarm.step}): {alarm.message}" for alarm in state.alarms]
    alarms += [
        f"- no longer on: {alarm.name} (steps {first} to {last}): {alarm.message}"
        for alarm, first, last in history(state.rows)
        if alarm.name not in on
    ]
    sections = {
        "Configuration": _configuration(record),
        "Metrics": _metrics(state),
        "Against the baseline": _comparison(record, state.rows, evaluations),
        "Alarms": alarms or ["None."],
    }
    lines = [
        f"# {state.name}",
        "",
        question_of(record),
        "",
        f"Status: **{state.status}**, {state.step} of {state.total or '?'} updates.{error}",
        "",
        *(f"- {name}: `{_code(value)}`" for name, value in facts_of(state)),
        "",
        *(line for title, body in sections.items() for line in (f"## {title}", "", *body, "")),
        "The recipe writes this file when the run starts and ends, and `scisci-gym eval` writes it again.",
        "",
    ]
    return "\n".join(lines)


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


def _configuration(record: Mapping[str, Any]) -> list[str]:
    config, chosen = record.get("config", {}), record.get("chosen", [])
    if not config:
        return ["Not recorded."]

    def listed(names: list[str]) -> list[str]:
        return ["```", *(f"{name}={json.dumps(config[name])}".replace("```", "'''") for name in names), "```"]

    rest = sorted(set(config) - set(chosen))
    return ["Chosen:", "", *listed([name for name in chosen if name in config]), "", "Defaults:", "", *listed(rest)]


def _metrics(state: RunState) -> list[str]:
    lines = [
        f"| {measure.title} | {point_text(values.first)} | {point_text(values.last)} | {point_text(values.best)} | "
        f"{shown(values.lowest[1])} to {shown(values.highest[1])} |"
        for measure in KEY_MEASURES
        if (values := summary(state.rows, measure)) is not None
    ]
    if not lines:
        return ["None yet."]
    return ["| | first | last | best | range |", "|---|---|---|---|---|", *lines, "", "The step stands in brackets."]


def _code(value: Any) -> str:
    return str(value).replace("`", "'").replace("\n", " ")


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


def _comparison(
    record: Mapping[str, Any], rows: Sequence[Row], evaluations: Mapping[str, Mapping[str, Any]]
) -> list[str]:
    """A table for every split that was evaluated, or else a sentence about validation."""
    if evaluations:
        return [line for split, scores in evaluations.items() for line in (*_table(split, scores), "")][:-1]
    return [comparison_sentence(record, rows), "", "Not evaluated with baselines yet: `scisci-gym eval RUN` does that."]


def comparison_sentence(record: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """The best validation score, compared with the majority label and, on a synthetic corpus, the best possible one."""
    validation = summary(rows, VALIDATION)
    if validation is None or validation.best is None:
        return "No validation scores."
    step, best = validation.best
    text = f"Best validation macro-F1 is {best:.3f} (step {step})"
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


def _table(split: str, evaluation: Mapping[str, Any]) -> list[str]:
    policy = evaluation["policy"]
    rows = [(f"**{policy['name']}**", policy["greedy"]), *evaluation.get("baselines", {}).items()]
    lines = [f"| {split}, {policy['greedy']['n']} papers | accuracy | macro-F1 | MCC |", "|---|---|---|---|"]
    for name, scores in rows:
        cells = (interval_text(scores[key]) for key in ("accuracy", "macro_f1", "mcc"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def interval_text(score: Mapping[str, float]) -> str:
    """The JSON of a `Score` as text for tables: value and interval."""
    return f"{score['value']:.3f} [{score['low']:.3f}, {score['high']:.3f}]"
