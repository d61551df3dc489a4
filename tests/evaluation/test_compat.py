"""An evaluation that failed or was killed goes on where it stopped, from the file of the cookbook's runner."""

import asyncio
import json

import pytest

from scisci_gym.evaluation import ask
from scisci_gym.evaluation.compat import keep_whole_answers


def test_only_whole_answers_are_kept(tmp_path) -> None:
    path = tmp_path / "name" / "trajectories.jsonl"
    assert keep_whole_answers(tmp_path, "name") == 0
    path.parent.mkdir()
    whole = '{"example_id": "1", "error": null}\n'
    path.write_text(
        whole + '{"example_id": "2", "error": "timeout"}\n' + '{"example_id": "3", "err\n' + '{"example_id"'
    )
    assert keep_whole_answers(tmp_path, "name") == 3
    assert path.read_text() == whole
    assert keep_whole_answers(tmp_path, "name") == 0


def test_an_example_that_failed_is_asked_again_and_the_others_are_not(examine) -> None:
    broken = [True]

    def unreliable(shown: str) -> str:
        if "moss" in shown.lower() and broken[0]:
            raise ConnectionError("the service went away")
        return "<answer>neutral</answer>"

    examined = examine(unreliable)
    with pytest.raises(RuntimeError, match="the service went away"):
        asyncio.run(examined.ask())
    assert len(examined.client.prompts) == 9
    broken[0] = False
    answers = asyncio.run(examined.ask())
    assert [answer.predicted for answer in answers] == ["neutral"] * 9
    assert len(examined.client.prompts) == 10


def test_the_cookbooks_runner_keeps_answers_in_the_file_that_is_mended(examine) -> None:
    """`compat.keep_whole_answers` names this file and its key "error"."""
    examined = examine(lambda shown: "<answer>neutral</answer>")
    asyncio.run(examined.ask())
    folder = examined.answers_folder("main") / examined.benchmark().name
    rows = [json.loads(line) for line in (folder / "trajectories.jsonl").read_text().splitlines()]
    assert len(rows) == 9
    assert all(row["example_id"] and row.get("error") is None for row in rows)


def test_a_question_may_wait_for_hours_where_the_model_is_slow(examine, monkeypatch) -> None:
    """The cookbook gives an example 300 seconds, in which 256 of them wait for each other on a laptop."""
    examined = examine(lambda shown: "<answer>neutral</answer>")
    answer = examined.client.sample

    async def slow(*given, **options):
        await asyncio.sleep(0.5)
        return await answer(*given, **options)

    examined.client.sample = examined.client.sample_async = slow
    assert ask.TIMEOUT_SECONDS >= 3600
    monkeypatch.setattr(ask, "TIMEOUT_SECONDS", 0.05)
    with pytest.raises(RuntimeError, match=r"9 of 9 examples of .* failed, the first .* with: timeout"):
        asyncio.run(examined.ask())
