"""Pass rates: what each example earns over several attempts, and the table of it."""

import asyncio
import csv
from pathlib import Path
from typing import Any

from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.evaluation.probes.pass_rates import sampled_pass_rates, shares, write_pass_rates


def wavering(prompt: str, seen: dict[str, int]) -> str:
    """Always right about the first paper, sometimes about the second, never about others (the labels go by turns)."""
    seen[prompt] = seen.get(prompt, 0) + 1
    titles = [paper.title for paper in sample_papers()]
    [at] = [index for index, title in enumerate(titles) if title in prompt]
    right = at == 0 or (at == 1 and seen[prompt] % 2 == 1)
    label = ("disruptive", "consolidating", "neutral")[at % 3 if right else (at + 1) % 3]
    return f"<answer>{label}</answer>"


def test_every_example_has_a_row_with_the_spread_of_its_rewards(examine, tmp_path: Path) -> None:
    seen: dict[str, int] = {}
    examined = examine(lambda prompt: wavering(prompt, seen))

    async def client_of(seed: int) -> Any:
        return examined.client

    rows = asyncio.run(sampled_pass_rates(examined, 4, client_of))
    assert [row.right for row in rows] == [4, 2, 0, 0, 0, 0, 0, 0, 0]
    second = rows[1]
    assert (second.attempts, second.pass_rate, second.mean_reward) == (4, 0.5, 0.0)
    assert (second.lowest_reward, second.highest_reward, second.reward_sd) == (-1.0, 1.0, 1.0)
    found = shares([row.pass_rate for row in rows])
    assert (found["never right"], found["always right"]) == (7 / 9, 1 / 9)
    with write_pass_rates(rows, tmp_path / "rates.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [row["pass_rate"] for row in table[-2:]] == ["0.5", "1.0"], "the hardest come first"
    asked = len(examined.client.prompts)
    assert asyncio.run(sampled_pass_rates(examined, 4, client_of)) == rows
    assert len(examined.client.prompts) == asked, "kept attempts are not made again"
