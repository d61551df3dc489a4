"""The files that every recipe writes about a run: record, heartbeat, `EXPERIMENT.md`, and its entry in the register.

`EXPERIMENT.md` in the run's folder has its question, configuration, code revision, metrics, and its comparison with
baselines. `register.json` and `REGISTER.md` beside the run folders have one entry for each run.
"""

import asyncio
import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from ...datasets.atomic_files import claimed, drop_torn_lines, locked, write_json_atomically, write_text_atomically
from ...evaluation.bootstrap import Score
from ...evaluation.records import without_secrets
from ...evaluation.render.figures import shown
from .heartbeat import EVERY, Heartbeat, Status, now
from .metrics import KEY_MEASURES, checkpoint_records, point_text
from .record import close_run_record, write_run_record
from .summary import RunSummary, comparison_sentence, facts_of

LOCK, EXPERIMENT = ".run.lock", "EXPERIMENT.md"
REGISTER, REGISTER_TEXT, REGISTER_LOCK = "register.json", "REGISTER.md", ".register.lock"
HEADINGS = "run recipe environment base_model adapter data validation test status revision date".split()
INTRODUCTION = (
    "The recipes and `scisci-gym eval` write this file; do not edit it. `register.json` has all fields. Scores are "
    "macro-F1 of greedy answers, with 95 % bootstrap intervals where the run was evaluated; without an interval, the "
    "best one during training, which is the mean reward of forecasts, and MCC where checkpoints are chosen by it."
)


@contextmanager
def recorded_run(
    recipe: str, cfg: Any, every: float = EVERY, engine: Mapping[str, Any] | None = None
) -> Iterator[None]:
    """While the block trains, keep the files about the run up to date.

    These are, in the run's folder `cfg.log_path`, `run.json` (configuration, revision, data, status, times and
    resumptions), `heartbeat.json` (a sign of life every so many seconds) and `EXPERIMENT.md` (the record for people),
    and beside the folder `register.json` and `REGISTER.md` with the entries of all its neighbours.

    `cfg` is the resolved configuration. Raises `FolderInUse` if another process trains in the same folder.
    """
    folder = Path(cfg.log_path)
    refusal = f"another process is training in {folder} (see its heartbeat.json); stop it, or choose another log_path"
    with claimed(folder / LOCK, refusal):
        # The cookbook appends to these files; to half a line of a killed run it would append a line that is lost.
        for path in folder.glob("*.jsonl"):
            drop_torn_lines(path)
        write_run_record(folder, recipe, cfg, cfg.dataset, engine)
        heartbeat = Heartbeat(folder, every)
        heartbeat.start()
        describe_run(folder)
        try:
            with _terminated_as_interrupted():
                yield
        except (KeyboardInterrupt, SystemExit, asyncio.CancelledError):
            _end(folder, heartbeat, "interrupted")
            raise
        except BaseException as error:
            _end(folder, heartbeat, "failed", f"{type(error).__name__}: {error}")
            raise
        _end(folder, heartbeat, "finished")


def _end(folder: Path, heartbeat: Heartbeat, status: Status, error: str | None = None) -> None:
    try:
        close_run_record(folder, status, error, heartbeat.updates)
    finally:
        heartbeat.stop(status)
    describe_run(folder)


def describe_run(folder: str | Path) -> None:
    """Write a run's experiment record and register entry from the present content of its folder."""
    text = experiment_text(RunSummary.of(folder))
    write_text_atomically(Path(folder) / EXPERIMENT, without_secrets(text))
    register_run(folder)


@contextmanager
def _terminated_as_interrupted() -> Iterator[None]:
    """Let SIGTERM, which schedulers send, end the block as Ctrl-C does, so that the run's end is written."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if not ours:
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


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
        return [line for split, scores in run.evaluations.items() for line in (*_scores(split, scores), "")][:-1]
    return [comparison_sentence(run), "", "Not evaluated with baselines yet: `scisci-gym eval RUN` does that."]


def _scores(split: str, evaluation: Mapping[str, Any]) -> list[str]:
    policy = evaluation["policy"]
    rows = [(f"**{policy['name']}**", policy["greedy"]), *evaluation.get("baselines", {}).items()]
    lines = [f"| {split}, {policy['greedy']['n']} papers | accuracy | macro-F1 | MCC |", "|---|---|---|---|"]
    for name, scores in rows:
        cells = (str(Score(**scores[key])) for key in ("accuracy", "macro_f1", "mcc"))
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def register_run(folder: str | Path) -> dict[str, Any]:
    """Write a run's entry into the register beside its folder, and return the entry.

    The name of the run's folder is the key, so that a resumed or evaluated run has one entry. Several runs may write at
    once: a lock is held from reading to renaming.
    """
    folder = Path(folder).resolve()
    entry = without_secrets(entry_of(RunSummary.of(folder)))
    with locked(folder.parent / REGISTER_LOCK):
        entries = read_register(folder.parent)
        entries[folder.name] = entry
        entries = dict(sorted(entries.items(), key=lambda item: (item[1]["started"] or "", item[0])))
        write_json_atomically(folder.parent / REGISTER, {"updated": now(), "runs": entries})
        write_text_atomically(folder.parent / REGISTER_TEXT, register_text(entries))
    return entry


def read_register(folder: str | Path) -> dict[str, dict[str, Any]]:
    """Name of a run -> its entry; empty if there is no register.

    Raises `ValueError` if `register.json` is not a register, such as an edited one that is no longer JSON.
    """
    path = Path(folder) / REGISTER
    if not path.is_file():
        return {}
    try:
        return dict(json.loads(path.read_text())["runs"])
    except (json.JSONDecodeError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path} is not a register ({error!r}); move it away, evaluating a run writes it anew"
        ) from error


def entry_of(run: RunSummary) -> dict[str, Any]:
    """The register's entry of a run."""
    state, config, record = run.state, run.state.config, run.state.record
    last = next((record for record in reversed(checkpoint_records(state.folder)) if record.sampler_path), None)
    scores: dict[str, Any] = {}
    name = run.validation.key.removeprefix("validation/")
    if run.best_validation is not None:
        scores["validation"] = dict(zip(("step", name), run.best_validation, strict=True))
    for split, evaluation in run.evaluations.items():
        greedy = evaluation["policy"]["greedy"]
        scores[split] = {name: greedy[name] for name in ("accuracy", "macro_f1", "mcc", "n")}
        scores[split] |= {"checkpoint": evaluation["checkpoint"], "dataset": evaluation["task"]["dataset"]}
    # Several revisions if the run was resumed with another one, in order.
    revisions = dict.fromkeys(str(attempt.get("revision")) for attempt in [record, *record.get("resumptions", [])])
    return {
        "recipe": record.get("recipe"),
        "env": config.get("env"),
        "env_options": config.get("env_options"),
        "base_model": config.get("model_name"),
        "adapter": {
            "sampler_path": last.sampler_path if last else None,
            "checkpoint": last.name if last else None,
            "rank": config.get("lora_rank"),
        },
        "dataset": record.get("dataset", {}).get("folder"),
        "dataset_hash": record.get("dataset", {}).get("content_hash"),
        "seed": config.get("seed"),
        "step": state.step,
        "total": state.total,
        "scores": scores,
        "status": state.status,
        "revision": " -> ".join(revisions),
        "started": record.get("started"),
        "ended": record.get("ended"),
    }


def register_text(entries: Mapping[str, Mapping[str, Any]]) -> str:
    """The register as a Markdown table."""
    headings = [heading.replace("_", " ") for heading in HEADINGS]
    lines = ["# Model register", "", INTRODUCTION, "", f"| {' | '.join(headings)} |", f"|{'---|' * len(headings)}"]
    for name, entry in entries.items():
        adapter = entry["adapter"]
        path = f"`{_cell(adapter['sampler_path'])}` (rank {adapter['rank']})" if adapter["sampler_path"] else ""
        cells = (
            *(f"[{_cell(name)}]({_cell(name).replace(' ', '%20')}/EXPERIMENT.md)", entry["recipe"], entry["env"]),
            *(f"`{_cell(entry['base_model'])}`", path, f"`{str(entry['dataset_hash'])[:12]}`"),
            *(_score(entry["scores"].get(split), entry["dataset"]) for split in ("validation", "test")),
            *(entry["status"], entry["revision"], (entry["started"] or "")[:10]),
        )
        lines.append(f"| {' | '.join(str(cell) for cell in cells)} |")
    return "\n".join([*lines, ""])


def _score(score: Mapping[str, Any] | None, dataset: str | None) -> str:
    if score is None:
        return ""
    name = next(name for name in ("macro_f1", "reward", "mcc") if name in score)
    value = score[name]
    if isinstance(value, Mapping):
        other = "" if score["dataset"] == dataset else f" on `{_cell(score['dataset'])}`"
        return f"{Score(**value)}{other}"
    return f"MCC {value:.3f}" if name == "mcc" else f"{value:.3f}"


def _cell(value: Any) -> str:
    return _code(value).replace("|", "\\|")
