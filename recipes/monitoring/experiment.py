"""`EXPERIMENT.md`: question, configuration, code revision, metrics of one run, and its comparison with baselines."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_text_atomically
from ...evaluation.records import without_secrets
from ...evaluation.render.figures import shown
from .metrics import KEY_MEASURES, point_text
from .summary import RunSummary, comparison_sentence, facts_of

EXPERIMENT = "EXPERIMENT.md"


def write_experiment(folder: str | Path) -> Path:
    """Write the experiment record of a run from the present content of its folder, and return its path."""
    text = experiment_text(RunSummary.of(folder))
    return write_text_atomically(Path(folder) / EXPERIMENT, without_secrets(text))


def experiment_text(run: RunSummary) -> str:
    """The record as Markdown. Values from configurations stand in code blocks."""
    state, record = run.state, run.state.record
    error = f" It ended with `{_code(record['error'])}`." if record.get("error") else ""
    alarms = [f"- {alarm.level}: {alarm.name} (step {alarm.step}): {alarm.message}" for alarm in state.alarms]
    alarms += [
        f"- no longer on: {alarm.name} ({_steps(first, last)}): {alarm.message}"
        for alarm, first, last in run.past_alarms
    ]
    sections = {
        "Configuration": _configuration(record),
        "Metrics": _metrics(run),
        "Against the baseline": _comparison(run),
        "Alarms": alarms or ["None."],
    }
    lines = [
        f"# {state.name}",
        "",
        run.question,
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


def _steps(first: int, last: int) -> str:
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _configuration(record: Mapping[str, Any]) -> list[str]:
    config, chosen = record.get("config", {}), record.get("chosen", [])
    if not config:
        return ["Not recorded."]

    def listed(names: list[str]) -> list[str]:
        return ["```", *(f"{name}={json.dumps(config[name])}".replace("```", "'''") for name in names), "```"]

    rest = sorted(set(config) - set(chosen))
    return ["Chosen:", "", *listed([name for name in chosen if name in config]), "", "Defaults:", "", *listed(rest)]


def _metrics(run: RunSummary) -> list[str]:
    lines = [
        f"| {measure.title} | {point_text(values.first)} | {point_text(values.last)} | {point_text(values.best)} | "
        f"{shown(values.lowest[1])} to {shown(values.highest[1])} |"
        for measure in KEY_MEASURES
        if (values := run.measures.get(measure)) is not None
    ]
    if not lines:
        return ["None yet."]
    return ["| | first | last | best | range |", "|---|---|---|---|---|", *lines, "", "The step stands in brackets."]


def _code(value: Any) -> str:
    return str(value).replace("`", "'").replace("\n", " ")


def _comparison(run: RunSummary) -> list[str]:
    """A table for every split that was evaluated, or else a sentence about validation."""
    if run.evaluations:
        return [line for split, scores in run.evaluations.items() for line in (*_table(split, scores), "")][:-1]
    return [comparison_sentence(run), "", "Not evaluated with baselines yet: `scisci-gym eval RUN` does that."]


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
