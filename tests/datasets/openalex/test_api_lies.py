"""An API that answers in good form what is not so: nothing is lost in silence, and what was short heals by itself."""

from __future__ import annotations

import dataclasses

import pytest
from openalex_server import LIES
from same_labels import same_as_the_full_graph

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.openalex.api import client as openalex
from scisci_gym.datasets.openalex.api import neighbourhood as collecting
from scisci_gym.datasets.openalex.api.client import Connection, StoredPages, pages, whole_answer
from scisci_gym.datasets.openalex.api.compat import Works
from scisci_gym.datasets.openalex.api.neighbourhood import Collected, collect
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.api.wanted import Wanted
from scisci_gym.datasets.openalex.snapshot import read_works
from scisci_gym.datasets.openalex.works_table import WorksTable
from scisci_gym.datasets.store import load_card, load_papers

WANTED = Wanted("river", (), 1996, 2012, 5, 2)
OPTIONS = ("--min-references", "1", "--min-citations", "1", "--split", "publication", "--last-complete-year", "2019")


@pytest.fixture
def server(serve, small_works):
    return serve(small_works)


@pytest.fixture
def few_a_page(monkeypatch):
    """Ten works a page and ten ids a request: many pages of little data."""
    monkeypatch.setattr(openalex, "PER_PAGE", 10)
    monkeypatch.setattr(collecting, "MAX_IDS", 10)


@pytest.fixture
def run(server, tmp_path, few_a_page):
    def start(folder: str, wanted: Wanted = WANTED, **wish) -> Collected:
        server.control(**wish)
        collected = collect(wanted, Connection(PageStore(tmp_path / folder), base_url=server.url))
        # `data verify` makes the collection again from the stored pages, whatever the API has answered.
        assert same(collect(wanted, StoredPages(PageStore(tmp_path / folder))), collected)
        return collected

    return start


def counts_in(works: WorksTable) -> dict[int, tuple[int, ...]]:
    """``(n_i, n_j, n_k)`` of every work."""
    found = zip(*(count.tolist() for count in disruption_counts(citation_graph(works), WANTED.window)), strict=True)
    return dict(zip(works.work_id.tolist(), found, strict=True))


def counts_of(collected: Collected) -> dict[int, tuple[int, ...]]:
    """Those of the focal papers that may carry a label."""
    counts = counts_in(collected.works())
    return {paper: counts[paper] for paper in collected.focal - collected.cut_short}


def same(one: Collected, other: Collected) -> bool:
    return dataclasses.asdict(one) == dataclasses.asdict(other)


@pytest.fixture
def truth(run) -> Collected:
    return run("truth")


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_passes_changes_nothing(run, truth, lie):
    """The page is asked for again: the same works, the same facts in the card."""
    found = run(lie, seed=1, lies=[lie], lie_rate=0.2)
    assert counts_of(found) == counts_of(truth)
    assert same(found, truth)


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_that_stays_costs_labels_but_makes_none_wrong_and_the_next_run_heals(
    run, truth, server, small_works, lie
):
    """An address lies whenever it is asked for. Papers whose neighbourhood is not whole carry no label and are counted;
    all others have the counts of the whole literature; when the API answers right again, so does the same folder."""
    found = run(lie, seed=2, lies=[lie], lie_rate=0.3, steady=True)
    right = counts_in(WorksTable.of_table(read_works(small_works, progress=False)[0]))
    assert {paper: right[paper] for paper in counts_of(found)} == counts_of(found)
    facts = found.facts
    assert facts["focal"]["whole"] == len(found.focal) - len(found.cut_short)
    assert (facts["focal"]["share_whole"] == 1) == (not found.cut_short)
    if found.cut_short:
        assert facts["citing"]["works_not_asked_for"] > 0
        assert facts["citing"]["share_received"] <= 1
    assert same(run(lie), truth)
    run(lie)
    assert server.log() == []


def test_a_count_that_is_always_too_high_is_narrowed_down_to_the_works_it_is_wrong_for(run):
    """Every list promises two more than there are: nothing can be called whole, and nothing is."""
    # Few papers: each work is asked for by itself, year by year, several times.
    wanted = Wanted("river", (), 1996, 2012, 2, 2)
    truth = run("true", wanted)
    collected = run("high", wanted, lies=["count_high"], lie_rate=1.0, steady=True)
    assert collected.cut_short == collected.focal == truth.focal
    assert collected.facts["citing"]["share_received"] < 1
    assert collected.facts["focal"]["share_whole"] == 0
    assert same(run("high", wanted), truth)


@pytest.mark.parametrize("lie", ["same_cursor", "first_cursor", "endless", "repeat"])
def test_no_series_of_cursors_goes_on_for_ever(server, tmp_path, few_a_page, lie):
    server.control(lies=[lie], lie_rate=1.0, steady=True)
    connection = Connection(PageStore(tmp_path), base_url=server.url)
    works, promised = whole_answer(Works(connection).filter(publication_year="1990").select(["id"]))
    assert len({work["id"] for work in works}) == len(works) <= promised
    assert len(server.log()) < 3 * (promised / 10 + 4)


def test_a_work_on_two_pages_is_counted_once(server, tmp_path, few_a_page):
    server.control(lies=["twice"], lie_rate=1.0, steady=True)
    query = Works(Connection(PageStore(tmp_path), base_url=server.url)).filter(publication_year="1990").select(["id"])
    ids = [work["id"] for page in pages(query) for work in page.works]
    assert len(ids) == len(set(ids)) < whole_answer(query)[1]


@pytest.mark.parametrize("steady", [False, True])
def test_every_label_of_a_build_is_that_of_the_whole_literature(command, server, small_works, tmp_path, steady):
    """The command with the server's own page size; the card says how much was whole, and verify holds."""
    arguments = ("build", "openalex", "--query", "river", "--from-year", 1996, "--to-year", 2012, "--max-focal", 120,
                 "--base-url", server.url, "--quiet", *OPTIONS)  # fmt: skip
    server.control(seed=5, lie_rate=0.3, steady=steady)
    result = command(*arguments, "--out", tmp_path / "lied")
    assert result.exit_code == 0, result.output
    assert same_as_the_full_graph(small_works, tmp_path / "lied", 5) > 10
    assert command("data", "verify", tmp_path / "lied").exit_code == 0
    source = load_card(tmp_path / "lied")["source"]
    if source["focal"]["whole"] < source["focal"]["used"]:
        assert "(100.00%) was collected whole" not in (tmp_path / "lied" / "README.md").read_text()
        assert load_card(tmp_path / "lied")["not_labelled"]["neighbourhood_cut"] > 0
    server.control()
    for out in ("lied", "true"):
        assert command(*arguments, "--out", tmp_path / out).exit_code == 0
    assert [load_papers(tmp_path / "lied", name) for name in ("train", "test")] == [
        load_papers(tmp_path / "true", name) for name in ("train", "test")
    ]
