"""`register.json` and `REGISTER.md` beside the run folders: one entry for each run, written by the recipes."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import locked, write_json_atomically, write_text_atomically
from ...evaluation.records import without_secrets
from .experiment import interval_text
from .heartbeat import now
from .metrics import checkpoint_records
from .summary import RunSummary

REGISTER, REGISTER_TEXT, LOCK = "register.json", "REGISTER.md", ".register.lock"
HEADINGS = "run recipe environment base_model adapter data validation test status revision date".split()
INTRODUCTION = (
    "The recipes and `scisci-gym eval` write this file; do not edit it. `register.json` has all fields. Scores are "
    "macro-F1 of greedy answers, with 95 % bootstrap intervals where the run was evaluated; without an interval, the "
    "best one during training, which is the mean reward of forecasts, and MCC where checkpoints are chosen by it."
)


def register_run(folder: str | Path) -> dict[str, Any]:
    """Write a run's entry into the register beside its folder, and return the entry.

    The name of the run's folder is the key, so that a resumed or evaluated run has one entry. Several runs may write at
    once: a lock is held from reading to renaming.
    """
    folder = Path(folder).resolve()
    entry = without_secrets(entry_of(RunSummary.of(folder)))
    with locked(folder.parent / LOCK):
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
        return f"{interval_text(value)}{other}"
    return f"MCC {value:.3f}" if name == "mcc" else f"{value:.3f}"


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("`", "'").replace("\n", " ")
