"""`scisci-gym study --plan`: the studies of a plan file, one after the other, and one page about all of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console

from ...datasets.errors import BadInput
from ...datasets.store import load_papers
from ..reporting.experiment_page import Section, write_experiment_page
from .plan import StudyPlan
from .report import comparison_table, score_table, scores_picture
from .result import StudyResult, findings
from .study import run_study, train_seeds


def run_studies(
    plans: Mapping[str, StudyPlan],
    out: Path,
    console: Console,
    engine: str | None = None,
    seeds: Sequence[int] | None = None,
) -> dict[str, StudyResult]:
    """Run studies in folders of their names below `out`, or continue them; `report.html` there is about all of them.

    With `seeds`, only these are trained, and there are no results; see `train_seeds`. The page is written anew after
    each study. Raises `BadInput`, which names the study, before anything is started if the dataset of one lacks its
    split or options do not fit, and otherwise what `run_study` raises.
    """
    for name, plan in plans.items():
        try:
            load_papers(plan.dataset, plan.split)
            for arm in plan.trained:
                plan.config(out / name, arm, plan.seeds[0])
        except (FileNotFoundError, ValueError) as error:
            raise BadInput(f"study {name!r}: {error}") from error
    results: dict[str, StudyResult] = {}
    for name, plan in plans.items():
        console.print(f"[bold]{name}[/bold]")
        if seeds is not None:
            train_seeds(plan, out / name, seeds, console, engine)
            continue
        results[name] = run_study(plan, out / name, console, engine)
        write_studies_report(results, out)
    return results


def write_studies_report(results: Mapping[str, StudyResult], out: Path) -> Path:
    """Write the page about several studies into `out` and return its path."""
    sections, answers = [], []
    for name, result in results.items():
        plan = result.plan
        # A pilot compares nothing, so it has no answer.
        found = findings(result)
        answers += [f"{name}: {answer}" for answer in found[:1]]
        papers = "all" if plan.train_papers is None else f"{plan.train_papers:,}"
        note = (
            f"{plan.env} on {plan.dataset}, model {plan.model_name}, {papers} training papers, {result.papers:,} "
            f"{plan.split} papers, seeds {', '.join(map(str, plan.seeds))}. {' '.join(found[1:])}"
        )
        tables = [score_table(result), comparison_table(result, "Paired comparisons")]
        link = ("Curves, costs and cases", f"{name}/report.html")
        sections.append(Section(name, tables, note, [scores_picture(result)], link=link))
    return write_experiment_page(
        out / "report.html",
        "scisci-gym study",
        "What does reinforcement learning gain over supervised learning?",
        f"Studies of one plan: {', '.join(results)}. Checkpoints were chosen on validation papers; the answer to each "
        "study's question comes first.",
        answers,
        sections,
        "Scores are means over seeds with 95 % intervals over seeds and papers, differences are paired by seed.",
    )
