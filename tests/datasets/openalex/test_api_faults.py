"""What OpenAlex does by its documentation and source, and what machines do: it costs no label and no traceback."""

from __future__ import annotations

import errno
import math
from pathlib import Path

import pytest
from openalex_server import LONGEST_ADDRESS

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.openalex.api.client import Connection, StoredPages
from scisci_gym.datasets.openalex.api.compat import Works
from scisci_gym.datasets.openalex.api.cost import first_plan, second_plan
from scisci_gym.datasets.openalex.api.errors import Refused, Stopped
from scisci_gym.datasets.openalex.api.neighbourhood import Collected, collect
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.api.wanted import Wanted, read_seeds
from scisci_gym.datasets.openalex.merged_ids import DELETED_WORK

FOCAL = Wanted(None, ("W10",))


def work(number: int, year: int, *cited: int, **more) -> dict:
    plain = {"publication_year": year, "cited_by_count": 0, "abstract_inverted_index": {"a": [0]}, "title": "T"}
    references = [f"https://openalex.org/W{reference}" for reference in cited]
    return {"id": f"https://openalex.org/W{number}", "referenced_works": references, **plain, **more}


@pytest.fixture
def api(serve, tmp_path, snapshot_of):
    """A server over a few works, and a maker of connections to it."""

    def start(works: list[dict], merges: str = "{}", **wish):
        folder = snapshot_of(tmp_path / "in", works)
        (folder / "merged.json").write_text(merges)
        server = serve(folder)
        server.control(**wish)

        def connect(**options) -> Connection:
            sleep = options.pop("sleep", lambda _: None)
            return Connection(PageStore(tmp_path / "pages"), base_url=server.url, sleep=sleep, **options)

        return server, connect

    return start


def counts(collected: Collected, paper: int) -> tuple[int, ...]:
    works = collected.works()
    at = works.work_id.tolist().index(paper)
    return tuple(int(count[at]) for count in disruption_counts(citation_graph(works)))


def asked(server, words: str) -> list[str]:
    return [address for address, _, _ in server.log() if words in address]


# W10 cites W1, which was merged into W2: W20 cites it by the new id, W21 and W22 by the old one.
MERGED = [work(2, 1990), work(10, 2000, 1), work(20, 2001, 2), work(21, 2001, 1), work(22, 2002, 1, 10)]


def test_works_that_cite_a_merged_reference_by_its_old_id_count(api, tmp_path):
    _, connect = api(MERGED, '{"1": 2}')
    found = collect(FOCAL, connect())
    assert counts(found, 10) == (0, 1, 2)
    assert found.cut_short == set()
    assert found.facts["citing"]["works_asked_for"] == 2
    assert found.facts["references"] == {"cited": 1, "found": 1, "merged": 1, "gone": 0}
    assert second_plan(FOCAL, found)[0].low == 1
    assert collect(FOCAL, StoredPages(PageStore(tmp_path / "pages"))) == found


def test_a_merged_reference_that_is_not_found_any_more_is_gone(api):
    _, connect = api(MERGED, '{"1": 2}', merged=404)
    assert collect(FOCAL, connect()).facts["references"] == {"cited": 1, "found": 0, "merged": 0, "gone": 1}


def test_a_short_answer_for_the_old_id_alone_cuts_the_neighbourhood_short(api, monkeypatch):
    _, connect = api(MERGED, '{"1": 2}')
    monkeypatch.setattr(
        "scisci_gym.datasets.openalex.api.neighbourhood._citing_batch", lambda _, ids, *__: ({}, 1, set(ids) & {1})
    )
    found = collect(FOCAL, connect())
    assert found.cut_short == {10}
    assert (found.facts["citing"]["works_asked_for"], found.facts["citing"]["works_not_asked_for"]) == (1, 1)


@pytest.mark.parametrize("reference", [1, DELETED_WORK])
def test_the_work_that_stands_for_all_deleted_ones_is_not_asked_for_its_citing_works(api, reference):
    deleted = work(DELETED_WORK, 1955, cited_by_count=1_527_000, title="Deleted Work")
    server, connect = api(
        [deleted, work(3, 1990), work(10, 2000, 3, reference), work(20, 2001, DELETED_WORK)], f'{{"1": {DELETED_WORK}}}'
    )
    found = collect(FOCAL, connect())
    assert found.facts["references"] == {"cited": 2, "found": 1, "merged": 0, "gone": 1}
    assert sorted(found.rows) == [3, 10]
    assert not asked(server, str(DELETED_WORK)) or reference == 1
    assert [str(DELETED_WORK) in address for address in asked(server, "cites:")] == [False]


def test_long_dois_are_asked_for_in_addresses_that_the_api_takes(api):
    dois = [f"10.1000/{number}-" + "long<>" * 20 for number in range(100)]
    server, connect = api([work(n + 1, 2000, doi=f"https://doi.org/{doi}") for n, doi in enumerate(dois)])
    wanted = Wanted(None, tuple(dois))
    assert len(collect(wanted, connect()).focal) == 100
    assert max(len(address) for address, _, _ in server.log()) <= LONGEST_ADDRESS
    assert len(asked(server, "filter=doi")) == first_plan(wanted)[0].low > 1
    assert asked(server, "/works/") == []


@pytest.mark.parametrize("name", ["id", "doi"])
def test_a_batch_of_exactly_100_costs_one_request(api, name):
    server, connect = api([work(n, 2000, doi=f"https://doi.org/10.1/{n}") for n in range(1, 101)])
    wanted = Wanted(None, tuple(f"W{n}" if name == "id" else f"10.1/{n}" for n in range(1, 101)))
    assert len(collect(wanted, connect()).focal) == 100
    assert len(server.log()) - len(asked(server, "cites:")) == first_plan(wanted)[0].high == 1


def test_a_query_is_words_and_no_filter(api):
    titles = {1: "river", 2: "river x,publication_year:1999"}
    server, connect = api([work(number, 1999, title=title) for number, title in titles.items()])
    assert collect(Wanted("x,publication_year:1999"), connect()).focal == {2}
    (address,) = asked(server, "search.title_and_abstract=x%2Cpublication_year%3A1999")
    assert "filter=has_abstract:true&" in address


def test_authors_that_a_list_cuts_off_are_counted(api):
    authors = {1: 99, 2: 100, 3: 250}
    works = [work(n, 2000, authorships=[{"author": {"id": f"A{a}"}} for a in range(k)]) for n, k in authors.items()]
    server, connect = api(works)
    bar: list[tuple] = []
    found = collect(Wanted(None, ("W1", "W2", "W3")), connect(), lambda *step: bar.append(step))
    assert {number: found.rows[number]["authors_count"] for number in authors} == authors
    assert [address[:9] for address in asked(server, "/works/")] == ["/works/W2", "/works/W3"]
    assert ("authors one by one", 1, 2) in bar


def test_what_is_asked_for_one_by_one_is_in_the_plan_and_on_the_bar(api):
    _, connect = api([*MERGED, work(11, 2000, doi="https://doi.org/10.1/a,b")], '{"1": 2}')
    wanted = Wanted(None, ("W10", "10.1/a,b"))
    (step,) = (step for step in first_plan(wanted) if step.name == "one by one")
    assert (step.low, step.price_usd) == (1, 0)
    bar: list[tuple] = []
    collect(wanted, connect(), lambda *step: bar.append(step))
    assert ("seeds one by one", 1, 1) in bar
    assert ("references one by one", 1, 1) in bar


def test_an_answer_that_comes_byte_by_byte_is_given_up(api):
    _, connect = api([work(1, 2000)], rate=1.0, kinds=["drip"])
    with pytest.raises(Stopped, match=r"after 2 tries, the last was no whole answer after 0\.2 seconds"):
        Works(connect(deadline=0.2, attempts=2))["W1"]


@pytest.mark.parametrize(("kind", "words"), [("forever", "no usable answer"), ("centuries", "again after 20")])
def test_a_pause_without_an_end_is_not_waited_for(api, kind, words):
    slept: list[float] = []
    _, connect = api([work(1, 2000)], rate=1.0, kinds=[kind])
    with pytest.raises(Stopped, match=words):
        Works(connect(sleep=slept.append, attempts=3))["W1"]
    assert sum(slept) < 10


def test_a_pause_says_why_and_how_long(api):
    said: list[str] = []
    _, connect = api([work(1, 2000)], rate=1.0, kinds=["server"])
    with pytest.raises(Stopped):
        Works(connect(notice=said.append, attempts=3))["W1"]
    assert said == [
        "503: Service unavailable: try again; waiting 1 s before try 2 of 3",
        "503: Service unavailable: try again; waiting 2 s before try 3 of 3",
    ]


def test_without_a_key_a_refusal_says_where_to_get_one(api):
    server, connect = api([work(1, 2000)], rate=1.0, kinds=["needs_key"])
    with pytest.raises(Refused, match=r"wants a key .*Cursor paging needs .* a free one from openalex\.org"):
        collect(Wanted("a"), connect())
    server.control(key="another")
    with pytest.raises(Refused, match=r"wants a key .* put into OPENALEX_API_KEY"):
        collect(Wanted("a"), connect())
    assert len(server.log()) == 1
    server.control(budget=0.0)
    with pytest.raises(Stopped, match="With a key you need not wait"):
        collect(Wanted("a"), connect())


@pytest.mark.parametrize("option", ["budget_usd", "patience"])
@pytest.mark.parametrize("value", [math.nan, -1.0])
def test_a_limit_that_is_no_amount_is_refused(tmp_path, option, value):
    with pytest.raises(BadInput, match=f"--{option[:6]}.* must be a number of at least 0, got {value:g}"):
        Connection(PageStore(tmp_path), **{option: value})


def test_a_budget_below_the_price_of_a_request_is_not_to_be_tried_again(api):
    server, connect = api([work(1, 2000)])
    with pytest.raises(Stopped, match=r"the request costs \$0\.001\); raise --budget"):
        collect(Wanted("a"), connect(budget_usd=0.0005))
    assert server.log() == []


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_seeds_in_the_encodings_of_editors(tmp_path, encoding):
    (tmp_path / "seeds").write_bytes("W12 # Erdős\r\n10.1002/X;2-#\n# é\n".replace("ő", "ö").encode(encoding))
    assert read_seeds(tmp_path / "seeds") == ("W12", "10.1002/x;2-#")


@pytest.fixture
def build(api, command, tmp_path):
    """Runs `build openalex` for one focal paper; the server and the command's result."""
    server, _ = api(MERGED, '{"1": 2}')
    (tmp_path / "seeds").write_text("W10\n")

    def run(*options: str, **wish):
        server.control(**wish)
        where = ("--out", tmp_path / "out", "--base-url", server.url, "--backoff", "0")
        return server, command("build", "openalex", "--seeds", tmp_path / "seeds", *where, *options)

    return run


def test_ctrl_c_says_how_to_go_on_and_no_stored_page_is_asked_for_again(build, monkeypatch):
    fetch, sent = Connection._get, []

    def interrupted(self: Connection, url: str):
        sent.append(url)
        if len(sent) == 3:
            raise KeyboardInterrupt
        return fetch(self, url)

    monkeypatch.setattr(Connection, "_get", interrupted)
    _, result = build("--quiet")
    assert result.exit_code == 130
    assert result.output == ("interrupted: everything fetched so far is kept; run the same command again to go on\n")
    build("--quiet")
    assert sent[3] == sent[2]
    assert set(sent[:2]).isdisjoint(sent[3:])


def test_a_stop_shows_the_words_of_the_api_as_they_are(build):
    _, result = build("--quiet", rate=1.0, kinds=["brackets"])
    assert result.exit_code == 3
    assert "Insufficient [/budget]" in result.output


def test_a_pause_is_shown_and_quiet_is_quiet(build):
    refusals = {"rate": 1.0, "kinds": ["server"]}
    assert "waiting 0 s before try 2 of 8" in " ".join(build(**refusals)[1].output.split())
    _, result = build("--quiet", **refusals)
    assert result.output.startswith("stopped: no usable answer")
    assert result.output.count("\n") == 1


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "free some space there"), (errno.EROFS, "choose a place"), (errno.EACCES, "choose a place")],
)
def test_a_page_that_cannot_be_stored_is_one_line(build, tmp_path, monkeypatch, number, words):
    def full(self: Path, data: bytes) -> int:
        raise OSError(number, "No room")

    monkeypatch.setattr(Path, "write_bytes", full)
    _, result = build("--quiet")
    assert result.exit_code == 2
    assert result.output.startswith(f"error: [Errno {number}] No room: '{tmp_path / 'out' / 'pages'}")
    assert words in result.output
    assert result.output.endswith("and run the same command again\n")


def test_any_other_error_of_the_system_is_raised(build, monkeypatch):
    def broken(self: PageStore, request: str, body: bytes) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(PageStore, "put", broken)
    assert isinstance(build("--quiet")[1].exception, OSError)


@pytest.mark.parametrize("address", ["http://", "http://[x", "https://api.openalex.org:99999"])
def test_an_address_that_is_none_is_not_tried_again(tmp_path, address):
    slept: list[float] = []
    with pytest.raises(BadInput, match="cannot be asked"):
        Works(Connection(PageStore(tmp_path), base_url=address, sleep=slept.append))["W1"]
    assert slept == []


def test_a_file_as_the_folder_is_one_line(build, tmp_path: Path):
    (tmp_path / "out").write_text("mine")
    _, result = build("--quiet")
    assert (result.exit_code, (tmp_path / "out").read_text()) == (2, "mine")
    assert "is a file; choose a folder" in result.output
