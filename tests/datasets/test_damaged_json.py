"""A damaged JSON file is named, with what to do about it."""

from pathlib import Path

import pytest

from scisci_gym.datasets.cli.openalex import _last_closed_year
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.graph.citation_graph import CitationGraph
from scisci_gym.datasets.store import load_card
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
