"""`data verify` of a dataset from the API: what the stored pages do not give is found, by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard

OPTIONS = ("--min-references", "1", "--min-citations", "1", "--split", "publication", "--last-complete-year", "2019")


@pytest.fixture(scope="module")
def built(serve, small_works, tmp_path_factory) -> Path:
    from typer.testing import CliRunner

    from scisci_gym.datasets.cli import build

    out = tmp_path_factory.mktemp("api") / "out"
    arguments = ["openalex", "--query", "river", "--from-year", "1996", "--to-year", "2012", "--max-focal", "60"]
    arguments += ["--base-url", serve(small_works).url, "--out", str(out), "--quiet", *OPTIONS]
    result = CliRunner().invoke(build.app, arguments)
    assert result.exit_code == 0, result.output
    return out


@pytest.fixture
def out(built, tmp_path) -> Path:
    return shutil.copytree(built, tmp_path / "out")


def stored(out: Path, words: str) -> list[Path]:
    return [path for path in sorted((out / "pages").rglob("*.json.zst")) if words in read(path)["request"]]


def whole_query(out: Path) -> Path:
    """A page that is the whole answer to a question for citing works."""
    for path in stored(out, "cites:"):
        body = json.loads(read(path)["body"])
        if body["meta"]["count"] == len(body["results"]) < 100:
            return path
    raise AssertionError("every query for citing works has several pages")


def read(path: Path) -> dict[str, str]:
    return json.loads(zstandard.decompress(path.read_bytes()))


def change(path: Path, alter: Callable[[dict[str, Any]], object]) -> None:
    page = read(path)
    body = json.loads(page["body"])
    alter(body)
    path.write_bytes(zstandard.compress(orjson.dumps({**page, "body": json.dumps(body)})))


def without_first(body: dict[str, Any]) -> None:
    """The page holds one work less, and its count agrees: only the card knows better."""
    body["results"].pop(0)
    body["meta"]["count"] -= 1


def other_abstract(body: dict[str, Any]) -> None:
    for work in body["results"]:
        work["abstract_inverted_index"] = {"another": [0]}


def other_count(out: Path) -> None:
    card = json.loads((out / "card.json").read_text())
    card["source"]["citing"]["records_promised"] += 1
    (out / "card.json").write_text(json.dumps(card))


@pytest.mark.parametrize(
    ("falsify", "words"),
    [
        (lambda out: stored(out, "cites:")[0].unlink(), "is missing from"),
        (lambda out: stored(out, "openalex:")[0].write_bytes(b"torn"), "or damaged"),
        (lambda out: shutil.rmtree(out / "pages"), "pages is missing"),
        (lambda out: change(whole_query(out), without_first), "citing records_received"),
        (lambda out: change(stored(out, "search")[0], without_first), "is missing from"),
        (lambda out: change(stored(out, "search")[0], other_abstract), "another title, abstract or year"),
        (other_count, "citing records_promised"),
    ],
)  # fmt: skip
def test_a_collection_that_is_not_the_one_of_the_card_fails(command, out, falsify, words):
    assert command("data", "verify", out).exit_code == 0
    falsify(out)
    result = command("data", "verify", out)
    assert result.exit_code == 1, result.output
    assert "fails  collection from the stored pages" in result.output
    assert words in result.output


def test_a_forgotten_page_is_fetched_again_but_serves_a_replay(tmp_path):
    from scisci_gym.datasets.openalex.api.response_cache import PageStore

    store = PageStore(tmp_path)
    store.put("/works?a", b'{"id": "old"}')
    store.forget("/works?a")
    store.forget("/works?b")
    assert (store.get("/works?a"), store.get("/works?a", forgotten=True)) == (None, b'{"id": "old"}')
    store.put("/works?a", b'{"id": "new"}')
    assert store.get("/works?a") == store.get("/works?a", forgotten=True) == b'{"id": "new"}'
    assert len(list(tmp_path.rglob("*.forgotten"))) == 0
