"""Works on disk: texts in an order of one's own, each row group read once, and the citation graph piece by piece."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peak_memory import peak_memory

from scisci_gym.datasets.graph.files import ARRAYS, GraphFiles, GraphReport
from scisci_gym.datasets.graph.on_disk import Citations
from scisci_gym.datasets.openalex import mapped_rows
from scisci_gym.datasets.openalex.mapped_rows import MappedRows, grouped
from scisci_gym.datasets.openalex.record import WORKS_SCHEMA
from scisci_gym.datasets.openalex.works_table import WorksTable, citation_graph

COLUMNS = ["title", "publication_year"]


@pytest.fixture(scope="module")
def works(tmp_path_factory):
    """Five hundred works in two shards, in row groups of thirty, some of them taken out."""
    folder = tmp_path_factory.mktemp("shards")
    for shard, numbers in enumerate((np.arange(200), np.arange(200, 500))):
        unknown = dict.fromkeys(WORKS_SCHEMA.names)
        rows = [
            {**unknown, "work_id": n, "title": f"title {n}" * (n % 7), "publication_year": 1900 + n % 90}
            for n in numbers.tolist()
        ]
        pq.write_table(pa.Table.from_pylist(rows, WORKS_SCHEMA), folder / f"part-{shard}.parquet", row_group_size=30)
    table = WorksTable.of_shards(sorted(folder.iterdir()))
    return table.where(np.arange(500) % 11 != 3)


@given(st.data())
def test_rows_are_those_of_the_shards(works, tmp_path_factory, data):
    among = data.draw(st.sets(st.integers(0, works.num_rows - 1), min_size=1))
    positions = np.array(sorted(among))
    asked = np.array(data.draw(st.lists(st.sampled_from(positions.tolist()), max_size=40)), np.int64)
    rows = MappedRows(works, positions, COLUMNS, tmp_path_factory.mktemp("mapped") / "rows.arrow")
    assert rows.rows(asked).to_pylist() == works.rows(asked, COLUMNS).to_pylist()


def test_batches_of_the_file_do_not_change_the_rows(works, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped_rows, "grouped", lambda batches: grouped(batches, size=1000))
    positions = np.arange(works.num_rows)
    rows = MappedRows(works, positions, COLUMNS, tmp_path / "rows.arrow")
    assert pa.ipc.open_file(tmp_path / "rows.arrow").num_record_batches > 5
    assert rows.rows(positions[::-1]).to_pylist() == works.rows(positions[::-1], COLUMNS).to_pylist()


def test_a_row_group_is_read_once_however_often_rows_are_asked_for(works, tmp_path, monkeypatch):
    reads = []
    plain = pq.ParquetFile.read_row_group
    monkeypatch.setattr(
        pq.ParquetFile, "read_row_group", lambda self, *args, **named: reads.append(args) or plain(self, *args, **named)
    )
    rows = MappedRows(works, np.arange(works.num_rows), COLUMNS, tmp_path / "rows.arrow")
    for start in range(0, works.num_rows, 10):
        rows.rows(np.arange(start, min(start + 10, works.num_rows)))
    assert len(reads) == 7 + 10


@given(st.data())
def test_the_graph_on_disk_is_that_in_memory(tmp_path_factory, data):
    """Works come in any order of years, some rows of citing papers are long, and references are of all kinds."""
    size = data.draw(st.integers(1, 60))
    years = data.draw(st.lists(st.integers(1990, 1999), min_size=size, max_size=size))
    cited = data.draw(st.lists(st.lists(st.integers(0, size + 2), max_size=6), min_size=size, max_size=size))
    if data.draw(st.booleans()):
        cited = [[0, *each] for each in cited]
    unknown = dict.fromkeys(WORKS_SCHEMA.names)
    rows = [
        {**unknown, "work_id": 7 * n, "publication_year": year, "referenced_works": [7 * each for each in references]}
        for n, (year, references) in enumerate(zip(years, cited, strict=True))
    ]
    works, folder = pa.Table.from_pylist(rows, WORKS_SCHEMA), tmp_path_factory.mktemp("graph")
    memory = data.draw(st.sampled_from([1, 40, 1 << 20]))
    in_memory, on_disk = citation_graph(works), citation_graph(works, folder, memory)
    for name in (*ARRAYS, "node_ids"):
        assert getattr(on_disk, name).tolist() == getattr(in_memory, name).tolist()
    assert on_disk.report == in_memory.report
    assert (folder / "graph.json").is_file()


def test_a_shard_that_loses_no_work_is_still_read_as_a_whole(works):
    """A snapshot loses a few works of a few shards; row groups are taken apart in those shards only."""
    first, second = works.lengths()
    fewer = works.where(np.arange(works.num_rows) != first + 5)
    assert fewer.kept[0] is works.kept[0]
    assert fewer.lengths() == [first, second - 1]
    whole = WorksTable.of_shards(works.pieces).where(np.arange(500) != 499)
    assert whole.kept[0] is None
    assert np.concatenate([part["work_id"].to_numpy() for part in whole.scan(["work_id"])]).tolist() == list(range(499))


def test_one_piece_of_a_graph_is_in_memory_at_a_time(tmp_path):
    """And some 30 bytes a paper; the pieces before and after it, and the files of the citations, are not."""
    papers, memory = 20_000, 2_000_000
    rng = np.random.default_rng(0)
    citations = [rng.integers(0, papers, (2, 100_000), np.int32) for _ in range(20)]

    def written() -> GraphReport:
        with TemporaryDirectory(dir=tmp_path) as ends, GraphFiles.beside(tmp_path / "graph") as files:
            found = Citations(Path(ends), papers)
            for part in citations:
                found.add(*part)
            np.save(files.path("years"), years := np.zeros(papers, np.int16))
            report = found.write_graph(files, years, memory, lambda step, done, total: None)
            files.finish(papers, report)
        return report

    report, peak = peak_memory(written)
    assert report.kept * 4 > 3 * memory
    assert peak < 1.3 * memory + 40 * papers
