"""`scisci-gym report RUN...`: options, curves, scores and transcripts of runs on one HTML page."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

from ...envs.training.outcomes import EPISODE
from ...evaluation.bootstrap import Score
from ...evaluation.records import without_secrets
from ...evaluation.render.pages import render_page
from ...evaluation.render.pictures import curves_svg, scores_svg
from ..monitoring import metrics as m
from ..monitoring.record import RunState
from ..monitoring.summary import RunSummary, comparison_sentence, facts_of

# Metrics are means over few rollouts, so curves have a running mean over this fraction of the steps.
SMOOTHED = 25
HEADLINE = (m.REWARD, m.NLL, m.DPO_LOSS)
"""The measures of the overview, beside the validation score that checkpoints are chosen by."""
VALIDATED = (m.VALIDATION, m.VALIDATION_REWARD)
"""Measures of few and large samples, whose curves need no running mean."""

# A message's begin in ChatML, with its role; the header after which the policy answers; and any special token.
_ROLE, _HEADER, _TOKEN = re.compile(r"<\|im_start\|>(\w+)"), re.compile(r"\[assistant\]\s*$"), re.compile(r"<\|\w+\|>")


@dataclass(frozen=True)
class LoggedEpisode:
    """An episode that a run logged in full: the updates that its policy had had, its index in the log of the step, and
    its content (`EpisodeLog.to_data`)."""

    step: int
    number: int
    data: Mapping[str, Any]

    @property
    def right(self) -> bool:
        """Whether the policy's label was the right one."""
        return self.data["predicted"] == self.data["expected"]

    @property
    def title(self) -> str:
        """Step, index and paper, for headings."""
        return f"step {self.step}, rollout {self.number}: {self.data['example_id']}"


def episodes_of(run: str | Path, most: int = 48, per_step: int = 4) -> list[LoggedEpisode]:
    """Episodes of a run's training steps, oldest first: the first few of evenly spread steps, the last one among them.

    There are at most `most` in all, and `per_step` of one step. A log that is still being written has no episodes yet,
    and runs of other recipes than RL log none.
    """
    store = m.run_store(run)
    steps = [iteration.iteration for iteration in store.list_iterations() if iteration.has_train_logtree]
    wanted = max(1, most // per_step)
    if len(steps) > wanted:
        steps = [steps[round(i * (len(steps) - 1) / max(1, wanted - 1))] for i in range(wanted)]
    episodes = []
    for step in dict.fromkeys(steps):
        logged = islice(_episodes((store.read_logtree(step) or {}).get("root")), per_step)
        episodes += [LoggedEpisode(step, number, data) for number, data in enumerate(logged)]
    return episodes[:most]


def readable_prompt(text: str) -> str:
    """A logged prompt without the special tokens of its chat template. Roles other than the user's are in brackets.

    Examples
    --------
    >>> turn = "<|im_start|>{}\\n{}<|im_end|>\\n"
    >>> readable_prompt(turn.format("system", "Be brief.") + turn.format("user", "Who?") + "<|im_start|>assistant\\n")
    '[system]\\nBe brief.\\nWho?'
    """
    named = _HEADER.sub("", _TOKEN.sub("", _ROLE.sub(r"[\1]", text)))
    return named.replace("[user]\n", "").strip()


def _episodes(node: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(node, Mapping):
        return
    data = node.get("data")
    if isinstance(data, Mapping) and data.get("type") == EPISODE:
        yield data
    for child in node.get("children", []):
        yield from _episodes(child)


@dataclass(frozen=True)
class ReportedRun:
    """One run in the form that the template shows."""

    name: str
    summary: RunSummary
    episodes: Sequence[LoggedEpisode]

    @property
    def state(self) -> RunState:
        """What the summary is of."""
        return self.summary.state


def write_run_report(folders: Sequence[str | Path], out: str | Path, episodes: int) -> Path:
    """Write a report about one or several runs into the file `out`, and return its path.

    The runs, given by their log_paths, may be finished or not. Of each at most so many `episodes` are shown. The page
    needs no other file and loads nothing from the network. Raises `FileNotFoundError` if a folder is not that of a run.
    """
    summaries = [RunSummary.of(folder) for folder in folders]
    states = [summary.state for summary in summaries]
    runs = [
        ReportedRun(name, summary, [_shown(each) for each in episodes_of(summary.state.folder, episodes)])
        for name, summary in zip(names_of(states), summaries, strict=True)
    ]
    measures = [measure for measure in m.MEASURES if any(measure in summary.measures for summary in summaries)]
    validation = {summary.validation for summary in summaries}
    headline = [measure for measure in measures if measure in {*HEADLINE, *validation}]
    splits = sorted({split for summary in summaries for split in summary.evaluations})
    page = {
        "runs": runs,
        "pictures": [_scores(runs, split) for split in splits],
        "measures": measures,
        "curves": _curves(runs, measures),
        "headings": [measure.title for measure in headline],
        "overview": [_overview(run, headline) for run in runs],
        "metrics": [_metrics(summary) for summary in summaries],
        "comparisons": [comparison_sentence(summary) for summary in summaries],
        "facts": [facts_of(state) for state in states],
        "splits": splits,
        "options": _options(states),
        "written": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "version": version("scisci-gym"),
    }
    return render_page("run_report.html.j2", out, **page)


def _shown(episode: LoggedEpisode) -> LoggedEpisode:
    """The episode as the page shows it. A policy can write anything, also what looks like a key."""
    turns = [(readable_prompt(asked), answered) for asked, answered in episode.data["turns"]]
    return replace(episode, data=without_secrets({**episode.data, "turns": turns}))


def names_of(states: Sequence[RunState]) -> list[str]:
    """Distinct names of runs: the names of their folders, with as many parent folders as are needed."""
    paths = [state.folder.resolve() for state in states]
    for depth in range(1, max(len(path.parts) for path in paths) + 1):
        names = ["/".join(path.parts[-depth:]) for path in paths]
        if len(set(names)) == len(names):
            return names
    raise ValueError(f"{paths[0]} is given twice")


def _scores(runs: Sequence[ReportedRun], split: str) -> str:
    """Macro-F1 of the runs that were evaluated on a split, below the baselines."""
    found = {run.name: run.summary.evaluations[split] for run in runs if split in run.summary.evaluations}
    baselines = {name: scores for each in found.values() for name, scores in (each.get("baselines") or {}).items()}
    return scores_svg(
        f"Macro-F1 on {split} papers (lines:\u00a095\u00a0%\u00a0intervals)",
        {name: Score(**scores["macro_f1"]) for name, scores in baselines.items()},
        {name: Score(**each["policy"]["greedy"]["macro_f1"]) for name, each in found.items()},
    )


def _curves(runs: Sequence[ReportedRun], measures: Sequence[m.Measure]) -> list[str]:
    smooth = max(1, max(len(run.state.rows) for run in runs) // SMOOTHED)
    rows = {run.name: [[{**row, m.SPEED.key: m.tokens_per_second(row)} for row in run.state.rows]] for run in runs}
    pictures = [
        curves_svg(rows, each.key, each.title, limits=each.limits, smooth=1 if each in VALIDATED else smooth)
        for each in measures
    ]
    if len(runs) == 1 and (labels := runs[0].summary.labels):
        shares = {
            label: [[{"step": row["step"], "share": row.get(m.PREDICTED + label)} for row in runs[0].state.rows]]
            for label in labels
        }
        title = "share of each label among the answers"
        pictures.append(curves_svg(shares, "share", title, limits=m.SHARE, legend=True))
    return pictures


def _overview(run: ReportedRun, measures: Sequence[m.Measure]) -> list[str]:
    state = run.state
    about = (str(state.record.get("recipe", "?")), str(state.config.get("env", "?")), state.status)
    cells = [run.name, *about, f"{state.step} of {state.total or '?'}"]
    for measure in measures:
        points = run.summary.measures.get(measure)
        point = points and (points.last if measure is m.REWARD else points.best)
        cells.append(f"{point[1]:.3f} ({point[0]})" if point else "")
    return cells


def _metrics(run: RunSummary) -> list[list[str]]:
    rows = []
    for measure, values in run.measures.items():
        points = (values.first, values.last, values.best, values.lowest, values.highest)
        rows.append([measure.title, *map(m.point_text, points)])
    return rows


def _options(states: Sequence[RunState]) -> list[list[str]]:
    """(name, value in each run) of the options that differ between runs, or that were chosen for a single run."""
    names = list(dict.fromkeys(name for state in states for name in state.config))
    rows = [[name, *(_option(state.config, name) for state in states)] for name in names]
    if len(states) == 1:
        chosen = states[0].record.get("chosen", names)
        return [row for row in rows if row[0] in chosen]
    return [row for row in rows if len(set(row[1:])) > 1]


def _option(config: Mapping[str, Any], name: str) -> str:
    if name not in config:
        return "–"
    return config[name] if isinstance(config[name], str) else json.dumps(config[name])
