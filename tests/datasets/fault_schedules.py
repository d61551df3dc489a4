"""Does a build from the API come out the same, byte for byte, whatever goes wrong on the way?

``python fault_schedules.py SERVER_URL FOLDER FIRST COUNT QUERY [OPTION=VALUE ...]`` builds a dataset without faults and
then once for every schedule number. A schedule makes the server fail at random requests: 429 of every kind, 5xx, cut,
truncated and false answers, and ``kill -9`` of the building process before, in the middle of and after an answer. After
every stop the same build is started again, until it ends. Prints one JSON object.

It is a process of its own because it forks: the builder must be killed and started again a thousand times, and nothing
else in here has threads.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import urllib.request
from pathlib import Path

from scisci_gym.datasets.build import BuildOptions
from scisci_gym.datasets.cli.openalex import build_openalex
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.openalex.api import client as openalex
from scisci_gym.datasets.openalex.api import neighbourhood as collect
from scisci_gym.datasets.openalex.api.client import Connection
from scisci_gym.datasets.openalex.api.errors import Refused, Stopped
from scisci_gym.datasets.openalex.api.response_cache import PageStore
from scisci_gym.datasets.openalex.api.wanted import Wanted

MAX_RUNS = 400


def main() -> None:
    """Run the schedules."""
    url, folder, first, count, query = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), sys.argv[5]
    settings = dict(option.split("=") for option in sys.argv[6:])
    # Small pages: many requests for little data.
    openalex.PER_PAGE = collect.MAX_IDS = int(settings.get("per_page", openalex.PER_PAGE))
    # Compiled code is loaded once, here, in the only thread there is, and every child has it.
    os.environ["SCISCI_GYM_THREADS"] = "1"
    control(url, {})
    if build(url, folder / "first", query, settings) != 0:
        raise SystemExit("the build without faults failed")
    control(url, {})
    reference = folder / "reference"
    if run(url, reference, query, settings) != 0:
        raise SystemExit("the build without faults failed")
    expected = dataset_hash(reference)
    pages = len(log(url)["log"])
    result = {"requests_without_faults": pages, "schedules": 0, "kills": 0, "runs": 0, "different": [], "repeated": []}
    for seed in range(first, first + count):
        rng = random.Random(seed)
        out = folder / f"schedule-{seed}"
        control(url, {"seed": seed, "rate": rng.uniform(0.05, 0.6)})
        stored: set[str] = set()
        for _ in range(MAX_RUNS):
            seen = len(log(url)["log"])
            status = run(url, out, query, settings)
            result["runs"] += 1
            result["kills"] += status == -9
            asked = {address for address, _, _ in log(url)["log"][seen:]}
            result["repeated"] += [f"schedule {seed}: {address}" for address in sorted(asked & stored)]
            stored |= stored_requests(out)
            if status == 0:
                break
        result["schedules"] += 1
        if status != 0 or dataset_hash(out) != expected:
            result["different"].append(seed)
        shutil.rmtree(out, ignore_errors=True)
    print(json.dumps(result))


def run(url: str, out: Path, query: str, settings: dict[str, str]) -> int:
    """Build in a process that may be killed: 0, 3 when it stopped by itself, -9 when it was killed."""
    # The child asks for nothing before the server knows whom to kill, and the server forgets a process that is gone.
    ready, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        os._exit(build(url, out, query, settings))
    control(url, {"keep": True, "pid": child})
    os.write(go, b"!")
    _, status = os.waitpid(child, 0)
    control(url, {"keep": True, "pid": None})
    os.close(ready)
    os.close(go)
    return os.waitstatus_to_exitcode(status)


def build(url: str, out: Path, query: str, settings: dict[str, str]) -> int:
    """One attempt, in the child."""
    connection = Connection(PageStore(out / "pages"), base_url=url, backoff=0.0, sleep=lambda _: None)
    rules = LabelRules(
        min_references=1, min_citations=1, window=int(settings["window"]), last_complete_year=int(settings["last"])
    )
    options = BuildOptions(rules, "publication", command=("scisci-gym", "build", "openalex"), novelty=False)
    wanted = Wanted(
        query, (), int(settings["from"]), int(settings["to"]), int(settings["focal"]), int(settings["window"])
    )
    try:
        build_openalex(wanted, connection, out, options, quiet=True)
    except (Stopped, Refused):
        return 3
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def dataset_hash(out: Path) -> str:
    """SHA-256 over names and bytes of everything in a dataset but the pages it came from."""
    digest = hashlib.sha256()
    for path in sorted(out.rglob("*")):
        name = path.relative_to(out)
        if path.is_file() and name.parts[0] != "pages":
            digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def stored_requests(out: Path) -> set[str]:
    """Addresses of the pages on disk."""
    import orjson
    import zstandard

    return {
        orjson.loads(zstandard.decompress(path.read_bytes()))["request"] for path in (out / "pages").rglob("*.json.zst")
    }


def control(url: str, wish: dict) -> None:
    """Tell the server what to do."""
    request = urllib.request.Request(f"{url}/_control", json.dumps(wish).encode(), method="POST")
    urllib.request.urlopen(request).read()


def log(url: str) -> dict:
    """What the server was asked for."""
    return json.loads(urllib.request.urlopen(f"{url}/_log").read())


if __name__ == "__main__":
    main()
