"""How fast and how large ingestion is.

``python benchmarks/ingestion.py speed DIR`` reads a snapshot folder with `gzip` + `orjson.loads` and with
`shards.convert` (parquet written), in turn, in one process: CPU seconds, medians and their ratio.

``python benchmarks/ingestion.py memory DIR`` converts the first part of a snapshot, and it many times over, each in
a process of its own: peak memory.

``python benchmarks/ingestion.py formats WORKS [EXAMPLES]`` writes works in both formats of a snapshot and converts each
in turn, in one process: works a CPU second, medians and their ratio. The works are made up, or copies of those in
EXAMPLES (gzipped JSON lines of works as the API gives them), each with numbers and words of its own, which compress as
real works do.

``python benchmarks/ingestion.py scale WORKS MEMORY [--novelty]`` writes a made-up parquet snapshot and runs `scisci-gym
build snapshot --memory MEMORY` on it, in the present folder, and then `scisci-gym labels --memory MEMORY` on its graph:
seconds and peak memory, in all and for each work.

``python benchmarks/ingestion.py sciscinet ROWS`` writes a made-up SciSciNet file and builds a dataset from it.
"""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq


def speed(folder: Path, rounds: int = 7) -> None:
    """CPU seconds of both readers."""
    from scisci_gym.datasets.openalex.shards import convert
    from scisci_gym.datasets.openalex.snapshot import parts_of

    parts = parts_of(folder)
    seconds: dict[str, list[float]] = {"gzip + orjson.loads": [], "parquet shards": []}
    with tempfile.TemporaryDirectory() as scratch:
        # Compiles, or loads, the kernels.
        convert(parts, Path(scratch) / "warm", workers=1, progress=False)
        for at in range(rounds):
            begin = time.process_time()
            for part in parts:
                with gzip.open(part.path) as stream:
                    for line in stream:
                        orjson.loads(line)
            middle = time.process_time()
            convert(parts, Path(scratch) / str(at), workers=1, progress=False)
            seconds["gzip + orjson.loads"].append(middle - begin)
            seconds["parquet shards"].append(time.process_time() - middle)
    for name, found in seconds.items():
        print(f"{name:20} {statistics.median(found):.3f} s CPU (median of {rounds}, {min(found):.3f}-{max(found):.3f})")
    ratios = [ours / theirs for theirs, ours in zip(*seconds.values(), strict=True)]
    print(f"{'ratio':20} {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


def formats(works: int, examples: Path | None = None, rounds: int = 7, part: int = 10_000) -> None:
    """Works a CPU second out of JSON lines and out of parquet, shards written."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "datasets"))
    from openalex_file import made_up_works, write_snapshot

    from scisci_gym.datasets.openalex.shards import convert
    from scisci_gym.datasets.openalex.snapshot import parts_of

    rates: dict[str, list[float]] = {"jsonl": [], "parquet": []}
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        sizes = [min(part, works - first) for first in range(0, works, part)]
        made = made_up_works if examples is None else _CopiedWorks(examples)
        write_snapshot(root, (made(1 + at * part, size) for at, size in enumerate(sizes)))
        for at in range(rounds + 1):
            for name, found in rates.items():
                parts = parts_of(root / "data" / name)
                begin = time.process_time()
                convert(parts, root / name / str(at), workers=1, progress=False)
                # The first round compiles, or loads, the kernels.
                found += [works / (time.process_time() - begin)] if at else []
        for name, found in rates.items():
            size = sum(path.stat().st_size for path in (root / "data" / name).rglob("part_*"))
            spread = f"median of {rounds}, {min(found):,.0f}-{max(found):,.0f}"
            print(f"{name:8} {size / 1e6:6.1f} MB  {statistics.median(found):8,.0f} works a CPU second ({spread})")
    ratios = [columns / lines for lines, columns in zip(*rates.values(), strict=True)]
    print(f"{'ratio':8} {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


class _CopiedWorks:
    """Copies of real works, each with an id, a DOI and a word in title and abstract that no other has."""

    def __init__(self, examples: Path) -> None:
        with gzip.open(examples) as lines:
            works = [json.loads(line) for line in lines]
        # Responses with `select` hold a part of each work only.
        self.works = [work for work in works if "authorships" in work and "locations" in work]

    def __call__(self, first: int, size: int) -> list[dict[str, Any]]:
        return [self._copy(number) for number in range(first, first + size)]

    def _copy(self, number: int) -> dict[str, Any]:
        work = self.works[number % len(self.works)]
        title, index = f"{work['title']} {number}", work.get("abstract_inverted_index")
        new = {"id": f"https://openalex.org/W{number}", "doi": f"https://doi.org/10.5555/{number}", "title": title}
        if index:
            after = 1 + max(place for places in index.values() for place in places)
            new["abstract_inverted_index"] = {**index, f"word{number}": [after]}
        return {**work, **new, "display_name": title}


def scale(works: int, room: str, *options: str) -> None:
    """Time and peak memory of a whole build from a parquet snapshot, and of all labels of its graph."""
    with tempfile.TemporaryDirectory(dir=".") as scratch:
        source, out = Path(scratch) / "source", Path(scratch) / "out"
        _write_works(source / "data" / "parquet" / "works", works)
        build = ["build", "snapshot", str(source), "--out", str(out), "--workers", "1", "--quiet"]
        _report_run([*build, "--memory", room, *(options or ["--no-novelty"])], works)
        graph = json.loads((out / "graph" / "graph.json").read_text())
        labelled = sum(pq.read_metadata(path).num_rows for path in (out / "data").glob("*.parquet"))
        print(f"{works:,} works, {graph['report']['kept']:,} citations, {labelled:,} papers in the dataset")
        papers, table = str(out / "graph" / "papers.parquet"), str(Path(scratch) / "labels.parquet")
        _report_run(["labels", str(out / "graph"), "--papers", papers, "--memory", room, "--out", table], works)


def _report_run(command: list[str], works: int) -> None:
    """Run a command of `scisci-gym` and print its time and memory, in all and for each work."""
    begin = time.monotonic()
    child = subprocess.Popen([sys.executable, "-m", "scisci_gym", *command])
    own, done = 0, 0
    while not done:
        own = max(own, _own_memory(child.pid))
        time.sleep(0.2)
        done, status, used = os.wait4(child.pid, os.WNOHANG)
    if status:
        raise SystemExit(f"{command[0]} failed with status {status}")
    cpu, peak = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
    print(f"{command[0]}: {time.monotonic() - begin:,.0f} s, {cpu:,.0f} s CPU, {cpu / works * 1e6:.0f} us CPU a work")
    print(f"peak {peak / 1e6:,.0f} MB, {peak / works:,.0f} bytes a work, load {os.getloadavg()[0]:.1f}")
    print(f"without pages of mapped files {own / 1e6:,.0f} MB, {own / works:,.0f} bytes a work (every 0.2 seconds)")


def _own_memory(process: int) -> int:
    """Bytes of a process now that are not pages of mapped files, which the system drops when it needs the room."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon")), 0)


def _write_works(folder: Path, works: int, part: int = 20_000) -> None:
    """A parquet snapshot: the same abstracts and authors in every part, with numbers, years, titles and citations anew.

    A paper cites papers that are, by rank of their year, on average a tenth of all works before it.
    """
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "datasets"))
    from openalex_file import made_up_works, published_table, write_manifest

    rng = np.random.default_rng(0)
    years = rng.integers(1980, 2026, works)
    by_year = np.argsort(years, kind="stable")
    rank = np.empty(works, np.int64)
    rank[by_year] = np.arange(works)
    first = published_table(made_up_works(1, part, xpac=0.0))
    words = np.array(sorted({word for title in first["title"].to_pylist() for word in title.lower().split()}))
    counts = np.array([len(cited) for cited in first["referenced_works"].to_pylist()])
    records = {}
    for at in range(0, works, part):
        size = min(part, works - at)
        numbers = np.arange(at, at + size)
        citing = np.repeat(rank[numbers], counts[:size])
        back = rng.exponential(works / 10, citing.size).astype(np.int64) % np.maximum(citing, 1)
        cited = by_year[np.maximum(citing - 1 - back, 0)]
        offsets = np.concatenate([[0], np.cumsum(counts[:size])]).astype(np.int32)
        titles = [" ".join(title) for title in words[rng.integers(0, len(words), (size, 10))].tolist()]
        published = years[numbers].tolist()
        new = {
            "id": _joined("https://openalex.org/W", numbers),
            "doi": _joined("https://doi.org/10.5555/", numbers),
            "title": titles,
            "display_name": titles,
            "publication_year": published,
            "publication_date": [f"{year}-06-01" for year in published],
            "referenced_works": pa.ListArray.from_arrays(offsets, pa.array(_joined("https://openalex.org/W", cited))),
        }
        table = first.slice(0, size)
        for name, values in new.items():
            field = table.schema.field(name)
            column = values if isinstance(values, pa.Array) else pa.array(values, field.type)
            table = table.set_column(table.schema.get_field_index(name), field, column)
        name = f"updated_date=2026-06-01/part_{at // part:04}.parquet"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, folder / name, compression="snappy")
        records[name] = size
    write_manifest(folder, "parquet", records)


def _joined(prefix: str, numbers: np.ndarray) -> list[str]:
    return [f"{prefix}{number + 1}" for number in numbers.tolist()]


def memory(folder: Path) -> None:
    """Peak memory for one part and for many times as much."""
    from scisci_gym.datasets.openalex.snapshot import parts_of

    part = parts_of(folder)[0].path
    for times in (1, 8, 32):
        with tempfile.TemporaryDirectory() as scratch:
            big = Path(scratch) / "works" / "part_0000.gz"
            big.parent.mkdir()
            with big.open("wb") as stream:
                for _ in range(times):
                    with part.open("rb") as source:
                        shutil.copyfileobj(source, stream)
            peak = _peak("convert", str(big.parent), str(Path(scratch) / "shards"))
            print(f"{times:2} x {part.name}: {big.stat().st_size / 1e6:6.1f} MB compressed, peak {peak / 1e6:,.0f} MB")


def sciscinet(rows: int) -> None:
    """Time and peak memory of a SciSciNet build."""
    sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "datasets"))
    from sciscinet_file import write_sciscinet

    with tempfile.TemporaryDirectory() as scratch:
        file, links = write_sciscinet(Path(scratch) / "papers.parquet", rows)
        begin = time.monotonic()
        peak = _peak("sciscinet-build", str(file), str(links), str(Path(scratch) / "out"))
        seconds = time.monotonic() - begin
        print(f"{rows:,} rows, {file.stat().st_size / 1e6:.0f} MB: {seconds:.0f} s, peak {peak / 1e6:,.0f} MB")


def _peak(*arguments: str) -> int:
    """Peak memory in bytes of this script run with `arguments`."""
    done = subprocess.run([sys.executable, __file__, *arguments], capture_output=True, text=True, check=True)
    return int(done.stdout.split()[-1]) * 1024


def _run(what: str, *arguments: str) -> None:
    if what == "convert":
        from scisci_gym.datasets.openalex.shards import convert
        from scisci_gym.datasets.openalex.snapshot import parts_of

        convert(parts_of(Path(arguments[0])), Path(arguments[1]), workers=1, progress=False)
    else:
        from scisci_gym.datasets.build import BuildOptions
        from scisci_gym.datasets.sciscinet.build import build_sciscinet

        build_sciscinet(
            Path(arguments[0]), Path(arguments[2]), BuildOptions(), fields=Path(arguments[1]), progress=False
        )
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["speed", folder]:
            speed(Path(folder))
        case ["formats", works, *examples]:
            formats(int(works), *map(Path, examples))
        case ["scale", works, room, *options]:
            scale(int(works), room, *options)
        case ["memory", folder]:
            memory(Path(folder))
        case ["sciscinet", rows]:
            sciscinet(int(rows))
        case ["convert" | "sciscinet-build", *_]:
            _run(*sys.argv[1:])
        case _:
            raise SystemExit(__doc__)
