"""What a terminal shows of further examinations: the numbers of their files, and a verdict that follows from them."""

import asyncio
import io

import pytest
from rich.console import Console

from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.opponents.challengers import ScriptedChallenger
from scisci_gym.evaluation.probes.consistency import consistency_report
from scisci_gym.evaluation.probes.contamination import contamination_report, cutoff_date
from scisci_gym.evaluation.probes.flips import flip_report
from scisci_gym.evaluation.probes.titles import split_title
from scisci_gym.evaluation.render.tables import probe_tables, result_tables


def shown(name: str, found: dict) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    for part in probe_tables(name, found):
        console.print(part)
    return console.export_text()


def by_heart(prompt: str) -> str:
    for paper in sample_papers():
        halves = split_title(paper.title)
        if halves and f"\n{halves[0]}\n" in prompt:
            return f"<answer>{halves[1]}</answer>"
    return "<answer>neutral</answer>"


@pytest.mark.parametrize(
    ("policy", "verdict"),
    [(by_heart, ": the model knows these papers"), (lambda _: "<answer>neutral</answer>", ": no sign that")],
)
def test_contamination(examine, policy, verdict) -> None:
    report = asyncio.run(contamination_report(examine(policy), cutoff_date("2005")))
    details = {table.title: table.rows for table in result_tables("contamination", report) if table.detail}
    assert len(details["Near-duplicates"]) == 9
    assert "published after" in [row[0] for row in details["All groups of papers"]]
    text = shown("contamination", report)
    assert "Near-duplicates" not in text
    assert verdict in text
    assert "before 2005-12-31" in text
    assert "after 2005-12-31" in text
    assert "9 of 9 papers resemble one of 9 training papers" in text


def test_flips_and_consistency(examine) -> None:
    report = asyncio.run(flip_report(examine(by_heart), {"[scripted]": ScriptedChallenger()}, control_rate=0.4, draw=3))
    text = shown("flips", report)
    assert "[scripted]" in text
    assert "nothing" in text
    assert "- 0 of 9 challenged episodes ended without a final answer" in text
    silent = asyncio.run(flip_report(examine(lambda _: "Hm."), {"silent": ScriptedChallenger()}))
    text = shown("flips", silent)
    assert "9 of 9 episodes ended before it" in text
    assert "- no first answer could be parsed, so none was challenged" in text
    report = asyncio.run(consistency_report(examine(by_heart, "disruption-pairwise-v0")))
    assert "Both orders of 3 pairs" in shown("consistency", report)
