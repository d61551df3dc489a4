"""The OpenAlex API, over real HTTP through pyalex, against a local server that fails in every way the real one does."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from same_labels import same_as_the_full_graph

from scisci_gym.datasets.build import citation_graph
from scisci_gym.datasets.disruption import disruption_counts
from scisci_gym.datasets.errors import BadInput
from scisci_gym.datasets.openalex.api.client import Connection, pages, single
from scisci_gym.datasets.openalex.api.compat import Works
from scisci_gym.datasets.openalex.api.cost import cost, first_plan
from scisci_gym.datasets.openalex.api.errors import Refused, Stopped
from scisci_gym.datasets.openalex.api.neighbourhood import collect
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.api.wanted import Wanted, read_seeds
from scisci_gym.datasets.store import load_card

HERE = Path(__file__).resolve().parent.parent
# Schedules of faults; all 200 with SCISCI_GYM_FAULT_SCHEDULES=200.
SCHEDULES = int(os.environ.get("SCISCI_GYM_FAULT_SCHEDULES", "3"))
KEY = "sk-very-secret-0123456789"


@pytest.fixture
def server(serve, small_works):
    return serve(small_works)


@pytest.fixture
def connect(server, tmp_path):
    def make(**options) -> Connection:
        slept: list[float] = []
        connection = Connection(PageStore(tmp_path / "pages"), base_url=server.url, sleep=slept.append, **options)
        connection.slept = slept  # type: ignore[attr-defined]
        return connection

    return make


def found(works: Works) -> list[str]:
    return [work["id"] for page in pages(works) for work in page.works]


def test_the_address_and_the_query_are_pyalexs_but_the_server_is_ours(connect, server):
    assert found(Works(connect()).filter(publication_year="1990", has_abstract=True).select(["id"]))
    address, outcome, _ = server.log()[0]
    assert outcome == "served"
    assert address == "/works?filter=publication_year:1990,has_abstract:true&select=id&per-page=100&cursor=%2A"


@pytest.mark.slow
def test_more_than_ten_thousand_results_are_read_to_the_end(serve, tmp_path, snapshot_of):
    work = {"publication_year": 2000, "cited_by_count": 0, "referenced_works": [], "abstract_inverted_index": None}
    folder = snapshot_of(tmp_path / "many", [{**work, "id": f"https://openalex.org/W{n}"} for n in range(10_050)])
    server = serve(folder)
    connection = Connection(PageStore(tmp_path / "pages"), base_url=server.url)
    assert len(set(found(Works(connection).filter(publication_year="2000").select(["id"])))) == 10_050
    assert len(server.log()) == 101


@pytest.mark.parametrize("kind", ["too_fast", "server", "gateway", "reset", "cut", "truncated", "html"])
def test_passing_faults_are_waited_out_over_plain_http(connect, server, kind):
    query = {"publication_year": "1990"}
    expected = found(Works(connect()).filter(**query).select(["id"]))
    server.control(seed=3, rate=0.7, kinds=[kind])
    connection = connect(attempts=50, backoff=0.5)
    connection.store = PageStore(connection.store.folder / "other")
    assert found(Works(connection).filter(**query).select(["id"])) == expected
    assert len(connection.slept) == sum(outcome != "served" for _, outcome, _ in server.log()) > 0
    assert connection.slept[0] == 0.5


def test_pauses_double_and_end(connect, server):
    server.control(seed=1, rate=1.0, kinds=["server"])
    connection = connect(attempts=4)
    with pytest.raises(Stopped, match=r"no usable answer from .* after 4 tries, the last was 503: Service unavailable"):
        found(Works(connection).filter(publication_year="1990"))
    assert connection.slept == [1.0, 2.0, 4.0]


def test_the_rate_limit_headers_are_kept(connect, server):
    server.control(budget=0.5)
    connection = connect()
    found(Works(connection).filter(publication_year="1990"))
    assert connection.spending.usd == pytest.approx(0.0001 * connection.spending.pages)
    assert connection.spending.remaining_usd == pytest.approx(0.5 - connection.spending.usd)


def test_a_spent_budget_stops_and_says_when_to_go_on(connect, server):
    server.control(budget=0.00015)
    connection = connect()
    with pytest.raises(Stopped, match=r"the day's budget is spent .* run the same command again after 20\d\d-.* UTC"):
        found(Works(connection).filter(publication_year="1988-2019"))
    assert connection.slept == []
    server.control()
    again = connect()
    found(Works(again).filter(publication_year="1988-2019"))
    assert again.spending.reused == 1


def test_a_budget_of_ones_own(connect):
    connection = connect(budget_usd=0.0002)
    with pytest.raises(Stopped, match=r"above its budget of \$0.0002"):
        found(Works(connection).filter(publication_year="1988-2019"))
    assert connection.spending.pages == 2


@pytest.mark.parametrize(("kind", "words"), [("throttled", "account is throttled"), ("paid", "needs a paid plan")])
def test_a_throttled_account_and_a_paid_parameter(connect, server, kind, words):
    server.control(seed=1, rate=1.0, kinds=[kind])
    with pytest.raises((Stopped, Refused), match=words):
        found(Works(connect()).filter(publication_year="1990"))
    assert len(server.log()) == 1


def test_a_bad_filter_is_refused_in_the_apis_words(connect):
    with pytest.raises(Refused, match="doesntexist is not a valid field"):
        found(Works(connect()).filter(doesntexist="1"))


def test_one_work_merged_or_missing(serve, tmp_path, snapshot_of):
    work = {"id": "https://openalex.org/W2", "doi": "https://doi.org/10.1/A,b", "cited_by_count": 0}
    folder = snapshot_of(tmp_path / "in", [{**work, "publication_year": 2000, "referenced_works": []}])
    (folder / "merged.json").write_text('{"1": 2}')
    server = serve(folder)
    connection = Connection(PageStore(tmp_path / "pages"), base_url=server.url)
    for name in ("W2", "W1", "doi:10.1/a,b"):
        assert single(connection, name)["id"] == "https://openalex.org/W2"
    assert single(connection, "W9") is None
    asked = len(server.log())
    assert single(connection, "W9") is None
    assert len(server.log()) == asked


def test_a_page_that_is_damaged_on_disk_is_fetched_again(tmp_path):
    store = PageStore(tmp_path)
    store.put("/works?a", b'{"id": "x"}')
    assert (store.get("/works?a"), store.get("/works?b")) == (b'{"id": "x"}', None)
    assert len(list(store.folder.rglob("*.json.zst"))) == 1
    path = next(tmp_path.rglob("*.zst"))
    path.write_bytes(path.read_bytes()[:-3])
    assert store.get("/works?a") is None


def test_the_plan_says_requests_and_cost():
    steps = first_plan(Wanted("black holes", (), 1995, 1999, 250))
    assert [(step.name, step.low, step.high) for step in steps[:2]] == [("focal papers", 1, 3), ("references", 0, 83)]
    low, high = cost(steps)
    assert 0 < low < high
    seeds = first_plan(Wanted(None, (*(f"W{n}" for n in range(150)), "10.1/a")))
    assert (seeds[0].name, seeds[0].low, seeds[0].high) == ("seeds", 3, 3)


OPTIONS = ("--min-references", "1", "--min-citations", "1", "--split", "publication", "--last-complete-year", "2019")


def test_a_dry_run_prints_the_plan_and_sends_nothing(command, server, tmp_path):
    result = command(
        "build", "openalex", "--query", "river", "--out", tmp_path / "out", "--base-url", server.url, "--dry-run"
    )
    assert result.exit_code == 0
    assert "citing works" in result.output
    assert "$" in result.output
    assert server.log() == []
    assert not (tmp_path / "out").exists()


def test_build_openalex_then_verify(command, server, tmp_path):
    server.control(key=KEY)
    out = tmp_path / "out"
    arguments = ("build", "openalex", "--query", "river", "--from-year", 1996, "--to-year", 2012, "--max-focal", 60,
                 "--out", out, "--base-url", server.url, *OPTIONS)  # fmt: skip
    result = command(*arguments, env={"OPENALEX_API_KEY": KEY})
    assert result.exit_code == 0, result.output
    card = load_card(out)
    source = card["source"]
    assert (source["focal"]["used"], source["focal"]["share_whole"], source["citing"]["share_received"]) == (60, 1, 1)
    assert "The neighbourhood of 60 focal papers (100.00%) was collected whole" in (out / "README.md").read_text()
    assert command("data", "verify", out).exit_code == 0
    first = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    asked = len(server.log())
    assert command(*arguments, env={"OPENALEX_API_KEY": KEY}).exit_code == 0
    assert len(server.log()) == asked
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == first

    everything = result.output.encode() + b"".join(first.values())
    pages_text = b"".join(zstandard.decompress(data) for path, data in first.items() if path.suffix == ".zst")
    assert all(authorised for _, _, authorised in server.log())
    assert KEY.encode() not in everything + pages_text
    assert KEY not in str(server.log())


def test_a_wrong_key_is_not_repeated(command, server, tmp_path):
    server.control(key=KEY)
    arguments = ("build", "openalex", "--query", "river", "--out", tmp_path, "--base-url", server.url, *OPTIONS)
    result = command(*arguments, env={"OPENALEX_API_KEY": "wrong-key-1"})
    assert result.exit_code == 2
    assert "does not accept the key in OPENALEX_API_KEY" in " ".join(result.output.split())
    assert "wrong-key-1" not in result.output
    result = command(*arguments, env={"OPENALEX_API_KEY": "wrong key\n2"})
    assert result.exit_code == 2
    assert "holds characters that no key has" in " ".join(result.output.split())
    assert "wrong key" not in result.output


def test_a_stop_is_exit_status_3(command, server, tmp_path):
    server.control(budget=0.0)
    result = command("build", "openalex", "--query", "river", "--out", tmp_path, "--base-url", server.url, *OPTIONS)
    assert result.exit_code == 3
    assert "stopped: the day's budget is spent" in " ".join(result.output.split())


def test_a_server_that_is_not_there(command, tmp_path):
    result = command(
        "build", "openalex", "--query", "x", "--out", tmp_path, "--base-url", "http://127.0.0.1:9", "--backoff", "0"
    )
    assert result.exit_code == 3
    assert "the last was ConnectionError" in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ((), "give --query, or --seeds"),
        (("--query", " "), "--query is empty"),
        (("--query", "x", "--max-focal", "0"), "--max-focal must be at least 1"),
        (("--query", "x", "--from-year", "2001", "--to-year", "2000"), "--from-year 2001 is after --to-year 2000"),
        (("--query", "x", "--base-url", "ftp://x"), "--base-url must start with"),
        (("--seeds", "/no/such/file"), "no file"),
        (("--query", "nosuchword"), "has no usable work"),
    ],
)
def test_wishes_that_cannot_be_granted(command, server, tmp_path, options, words):
    base = () if "--base-url" in options else ("--base-url", server.url)
    result = command("build", "openalex", "--out", tmp_path, *base, *options)
    assert result.exit_code == 2, result.output
    assert words in " ".join(result.output.split())


def test_seeds_from_a_file(tmp_path):
    (tmp_path / "seeds").write_text("W12 # a comment\n\nhttps://openalex.org/W13\nhttps://doi.org/10.1/ABC\nW12\n")
    assert read_seeds(tmp_path / "seeds") == ("W12", "W13", "10.1/abc")
    (tmp_path / "seeds").write_text("W12\nhello\n")
    with pytest.raises(BadInput, match="line 2: 'hello' is neither"):
        read_seeds(tmp_path / "seeds")


def test_merged_references_and_seeds_are_followed(serve, tmp_path, snapshot_of):
    """Focal 10 cites 1 (merged into 2) and 3 (gone); 20 and 21 cite 2. Asked for by an old id of 10, and by DOI."""

    def work(number, year, *cited, **more):
        references = [f"https://openalex.org/W{n}" for n in cited]
        plain = {"publication_year": year, "cited_by_count": 0, "abstract_inverted_index": {"a": [0]}, "title": "T"}
        return {"id": f"https://openalex.org/W{number}", "referenced_works": references, **plain, **more}

    works = [
        work(2, 1990),
        work(10, 2000, 1, 3),
        work(11, 2000, 2, doi="https://doi.org/10.1/X"),
        work(20, 2001, 2, 10),
    ]
    folder = snapshot_of(tmp_path / "in", [*works, work(21, 2009, 2)])
    (folder / "merged.json").write_text('{"1": 2, "9": 10}')
    connection = Connection(PageStore(tmp_path / "pages"), base_url=serve(folder).url)
    result = collect(Wanted(None, ("W9", "10.1/x", "W404")), connection)
    assert result.focal == {10, 11}
    assert result.dropped == Counter(not_found=1)
    assert result.facts["references"] == {"cited": 3, "found": 2, "merged": 2, "gone": 1}
    table = result.works()
    assert table.work_id.tolist() == [2, 10, 11, 20]
    graph = citation_graph(table)
    assert [n[1].item() for n in disruption_counts(graph)] == [0, 1, 0]


def test_papers_that_cite_what_was_left_out_carry_no_label(serve, small_works, tmp_path):
    server = serve(small_works)
    connection = Connection(PageStore(tmp_path), base_url=server.url)
    wanted = Wanted("river", (), 1996, 2010, 80)
    whole = collect(wanted, connection)
    assert whole.cut_short == set()
    cited = sorted(row["cited_by_count"] for row in whole.rows.values())
    limit = cited[-len(whole.focal) // 2]
    less = collect(Wanted("river", (), 1996, 2010, 80, max_cited=limit), connection)
    assert 0 < len(less.cut_short) < len(less.focal)
    for focal in less.focal:
        parts = [focal, *(n for n in whole.rows[focal]["referenced_works"])]
        assert (focal in less.cut_short) == any(whole.rows[part]["cited_by_count"] > limit for part in parts)


def test_labels_through_the_api_are_those_of_the_full_graph(command, server, small_works, tmp_path):
    result = command(
        "build", "openalex", "--query", "river", "--from-year", 1996, "--to-year", 2012, "--max-focal", 300,
        "--out", tmp_path, "--base-url", server.url, "--quiet", *OPTIONS,
    )  # fmt: skip
    assert (result.exit_code, result.output) == (0, "")
    assert same_as_the_full_graph(small_works, tmp_path, 5) > 50


@pytest.mark.slow
def test_labels_of_real_papers_through_the_api_are_those_of_the_full_graph(command, serve, hepth, tmp_path):
    result = command(
        "build", "openalex", "--query", "vortices", "--from-year", 1993, "--to-year", 1997, "--max-focal", 120,
        "--out", tmp_path, "--base-url", serve(hepth).url, "--quiet", "--min-references", 1, "--min-citations", 1,
        "--split", "publication", "--last-complete-year", 2002,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert load_card(tmp_path)["source"]["focal"]["share_whole"] == 1
    assert same_as_the_full_graph(hepth, tmp_path, 5) > 40


@pytest.mark.slow
def test_whatever_goes_wrong_the_dataset_is_the_same_and_no_page_is_paid_for_twice(serve, small_works, tmp_path):
    """429 of every kind, 5xx, cut, truncated and false answers, kill -9 at any moment. 200 schedules over real papers:
    ``SCISCI_GYM_FAULT_SCHEDULES=200 pytest tests/datasets -k whatever``."""
    url = serve(small_works).url
    arguments = ("river", "window=3", "last=2019", "from=1996", "to=2012", "focal=5", "per_page=25")
    script = [sys.executable, str(HERE / "fault_schedules.py"), url, str(tmp_path), "0", str(SCHEDULES), *arguments]
    done = subprocess.run(script, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["schedules"] == SCHEDULES
    assert result["kills"] > 0
    assert result["different"] == []
    assert result["repeated"] == []


def test_recorded_pages_have_the_shape_that_is_read_here(api_answers):
    with gzip.open(api_answers, "rt") as stream:
        answers = [json.loads(line) for line in stream]
    lists = [a["body"] for a in answers if a["status"] == 200 and "results" in a["body"]]
    assert len(lists) > 20
    for body in lists:
        assert {"count", "next_cursor"} <= set(body["meta"]) or body["meta"]["page"] is not None
    prices = {a["headers"].get("x-ratelimit-cost-usd") for a in answers if "/works?" in a["uri"]}
    assert prices <= {None, "0.0001"}
