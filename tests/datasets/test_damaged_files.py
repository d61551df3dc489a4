"""A damaged file is named, with what to do about it."""

from pathlib import Path

import pytest

from scisci_gym.datasets.cli.openalex import _last_closed_year
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.graph.citation_graph import CitationGraph
from scisci_gym.datasets.store import load_card, load_papers, save_dataset, split_file
from scisci_gym.datasets.verify import verify
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.recipes.experiments.runner import is_resumed
from scisci_gym.recipes.kit.config import tiny_notes

READERS = {
    "card.json": load_card,
    "graph.json": CitationGraph.load,
    "pages/started.json": _last_closed_year,
    "plan.json": lambda folder: is_resumed(folder, "plan.json", {}, "delete it"),
    "init_report.json": tiny_notes,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("content", ['{"a": ', "", "\ud800"])
def test_the_file_is_named(name: str, content: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content.encode("utf-8", "surrogatepass"))
    with pytest.raises(BadInput, match=rf"{path.name} is damaged: .*; \w+"):
        READERS[name](tmp_path)


@pytest.mark.parametrize("kept", [0, 100, 3000])
def test_the_split_is_named(kept: int, tmp_path: Path) -> None:
    papers = sample_papers()
    save_dataset(tmp_path, {"train": papers, "validation": papers, "test": papers})
    path = split_file(tmp_path, "test")
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(BadInput, match=rf"{path.name} is damaged: .*; build the dataset again"):
        load_papers(tmp_path, "test")
    (tmp_path / "card.json").write_text("{}")
    [check] = verify(tmp_path)
    assert path.name in check.wrong[0]
