"""Where the numbers of other packages differ from ours on a real literature, and whether we can say why.

    python benchmarks/peer_numbers.py WORKS --python PEERS/bin/python
    python benchmarks/peer_numbers.py WORKS --python PEERS/bin/python --measure atypicality --year 1993

WORKS is an OpenAlex snapshot folder. PEERS is an environment with `cdindex`, `pyscisci` and `novelpy` (the last wants
older versions of pandas and numpy than this project, so it has one of its own); a package that is missing there is
reported as such. A difference counts as explained when the package's own rule, written down here in a few lines with
sets, gives its numbers on every paper.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

WINDOW = 5


# In the peer's environment: each function takes the data of `main`, and returns an array (N,) or (2, N).


def cdindex(data, options):
    """CD_5 by the package of the CD index."""
    from label_peers import PEERS

    return PEERS["cdindex"](data["citing"], data["cited"], data["years"])


def cdindex_with_self_citations(data, options):
    """The same, with the self-citations that the data have."""
    from label_peers import PEERS

    return PEERS["cdindex"](*(np.append(data[end], data["selves"]) for end in ("citing", "cited")), data["years"])


def pyscisci(data, options):
    """CD_5: `disruption_index` with the window [1, 5]."""
    from label_peers import PEERS

    return PEERS["pyscisci"](data["citing"], data["cited"], data["years"])


def pyscisci_atypicality(data, options):
    """z10 and z_median of the papers of one year by `novelty_conventionality`."""
    import pandas as pd
    from pyscisci.methods.novelty import novelty_conventionality

    np.random.seed(options["seed"])
    years, known = data["years"], data["venues"] >= 0
    # It stops with an IndexError where a cited paper has no journal; it means to leave these citations out, so do we.
    chosen = (years == options["year"])[data["citing"]] & known[data["citing"]] & known[data["cited"]]
    columns = {"PublicationId": np.arange(years.size), "Year": years, "JournalId": data["venues"]}
    papers = pd.DataFrame(columns)[known]
    edges = {"CitingPublicationId": data["citing"][chosen], "CitedPublicationId": data["cited"][chosen]}
    result = novelty_conventionality(papers, pd.DataFrame(edges), n_samples=options["samples"])
    values = result.set_index("PublicationId").reindex(np.arange(years.size))
    return values[["NoveltyScore", "ConventionalityScore"]].to_numpy(np.float64).T


def novelpy_disruption(data, options):
    """DI1 of the papers of one year by `Disruptiveness`."""
    from novelpy.indicators.WuBuBornmann import Disruptiveness

    years, year = data["years"].tolist(), options["year"]
    network = {p: {"id": p, "year": y, "citations": {"refs": [], "cited_by": []}} for p, y in enumerate(years)}
    for citing, cited in zip(data["citing"].tolist(), data["cited"].tolist(), strict=True):
        network[citing]["citations"]["refs"].append(cited)
        network[cited]["citations"]["cited_by"].append(citing)
    Path("Data/docs").mkdir(parents=True)
    Path("Data/docs/net.pkl").write_bytes(pickle.dumps(network))
    names = {"refs_list_variable": "refs", "cits_list_variable": "cited_by", "year_variable": "year"}
    Disruptiveness(collection_name="net", focal_year=year, id_variable="id", **names).get_indicators()
    values = np.full(len(years), np.nan)
    for row in json.loads(Path(f"Result/Disruptiveness/{year}.json").read_text()):
        values[row["id"]] = row["disruptiveness"]["DI1"]
    return values


def novelpy_atypicality(data, options):
    """z10 and z_median of the papers of one year by `Uzzi2013`."""
    import random

    from novelpy.indicators.Uzzi2013 import Uzzi2013
    from novelpy.utils.cooc_utils import create_cooc

    random.seed(options["seed"])
    years, venues, year = data["years"], data["venues"], options["year"]
    references = {int(paper): [] for paper in np.flatnonzero(years == year)}
    for citing, cited in zip(data["citing"].tolist(), data["cited"].tolist(), strict=True):
        if citing in references and venues[cited] >= 0:
            references[citing].append({"item": f"J{venues[cited]:06}", "year": int(years[cited])})
    docs = [{"id": paper, "year": year, "refs": refs} for paper, refs in references.items() if len(refs) > 1]
    Path("Data/docs/all").mkdir(parents=True)
    Path(f"Data/docs/all/{year}.json").write_text(json.dumps(docs))
    names = {"collection_name": "all", "weighted_network": True, "self_loop": True}
    create_cooc(var="refs", sub_var="item", year_var="year", time_window=[year], **names).main()
    columns = {"id_variable": "id", "year_variable": "year", "variable": "refs", "sub_variable": "item"}
    Uzzi2013(collection_name="all", focal_year=year, nb_sample=options["samples"], **columns).get_indicator()
    values = np.full((2, years.size), np.nan)
    for row in json.loads(Path(f"Result/uzzi/refs/{year}.json").read_text()):
        score = row["refs_uzzi"]["score"]
        values[:, row["id"]] = score["novelty"], score["conventionality"]
    return values


CHILDREN = [
    cdindex,
    cdindex_with_self_citations,
    pyscisci,
    pyscisci_atypicality,
    novelpy_disruption,
    novelpy_atypicality,
]


# Here: the peers' rules, paper by paper with sets.


def pyscisci_rule(graph, focal):
    """A citation counts from 1 to 5 years after *the cited paper*, which may be a reference; the paper itself is among
    those that cite its references; without references there is no value."""
    years = graph.years.tolist()
    in_window = [{c for c in graph.citers(p).tolist() if 1 <= years[c] - years[p] <= WINDOW} for p in range(len(years))]
    values = np.full(len(years), np.nan)
    for paper in focal:
        cites, references = in_window[paper], graph.references(paper).tolist()
        if cites and references:
            cites_reference = set().union(*(in_window[reference] for reference in references))
            both = len(cites & cites_reference)
            values[paper] = (len(cites) - 2 * both) / (len(cites) + len(cites_reference) - both)
    return values


def novelpy_rule(graph, focal):
    """No end of the window; papers that cite the paper count whatever their year, those that cite a reference from the
    year of the paper on, that year included; 0 where nobody cites either."""
    years = graph.years.tolist()
    values = np.full(len(years), np.nan)
    for paper in focal:
        cites = set(graph.citers(paper).tolist())
        lists = (graph.citers(reference).tolist() for reference in graph.references(paper).tolist())
        cites_reference = {c for cited in lists for c in cited if c != paper and years[c] >= years[paper]}
        both, either = len(cites & cites_reference), len(cites | cites_reference)
        values[paper] = (len(cites) - 2 * both) / either if either else 0
    return values


def ask(python, name, data, options, folder):
    """The array of a function of `CHILDREN`, computed by another interpreter; or why there is none."""
    place = Path(folder) / f"{name}-{options['samples']}-{options['seed']}"
    place.mkdir()
    command = [python, str(Path(__file__).resolve()), "--child", name, str(data), json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=place)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["killed"])[-1]
        return "not installed" if "ModuleNotFoundError" in last else f"failed: {last}"
    return np.load(place / "values.npy")


def compared(ours, theirs, among):
    """Cells of the table: papers, equal, a value here only, a value there only, rank correlation of the others."""
    from scipy.stats import spearmanr

    ours, theirs = ours[among], theirs[among]
    here, there = np.isfinite(ours), np.isfinite(theirs)
    both = here & there
    equal = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    rank = spearmanr(ours[both], theirs[both])[0] if both.sum() > 2 else np.nan
    return f"{among.sum():,} | {equal.sum():,} | {(here & ~there).sum():,} | {(there & ~here).sum():,} | {rank:.4f}"


def main():
    """Compare on the works of a snapshot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("works", type=Path)
    parser.add_argument("--python", default=sys.executable, help="interpreter of the peers' environment")
    parser.add_argument("--year", type=int, default=1997, help="papers whose atypicality and DI1 are compared")
    parser.add_argument("--measure", choices=["cd", "atypicality"], default="cd")
    parser.add_argument("--samples", type=int, nargs="+", default=[20], help="null networks of the peers")
    arguments = parser.parse_args()
    from scisci_gym.datasets.disruption import cd_index, disruption_counts
    from scisci_gym.datasets.graph import CitationGraph
    from scisci_gym.datasets.novelty.atypicality import atypicality_of_year
    from scisci_gym.datasets.novelty.venue_pairs import checked_venues
    from scisci_gym.datasets.openalex.snapshot import read_works
    from scisci_gym.datasets.positions import positions_of

    works = read_works(arguments.works, progress=False)[0]
    ids, years = works["work_id"].to_numpy(), works["publication_year"].to_numpy()
    lists = works["referenced_works"].combine_chunks()
    citing = np.repeat(np.arange(years.size), lists.value_lengths().to_numpy())
    cited = positions_of(lists.flatten().to_numpy(), ids)
    graph = CitationGraph.from_edges(citing, cited, years)
    venues = checked_venues(graph, works["venue_id"].to_numpy())
    print(f"{graph}; {graph.report}\n")
    everyone, of_year = np.ones(years.size, bool), years == arguments.year
    nodes = np.flatnonzero(of_year)
    print("| package | measure | papers | equal | ours only | theirs only | rank correlation |")
    print("|---|---|---|---|---|---|---|")

    def row(package, measure, ours, theirs, among):
        cells = theirs if isinstance(theirs, str) else compared(ours, theirs, among)
        print(f"| {package} | {measure} | {cells} |", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data.npz"
        edges = dict(zip(("citing", "cited"), graph.edges(), strict=True))
        selves = np.unique(citing[citing == cited]).astype(np.int32)
        np.savez(data, **edges, years=years.astype(np.int64), venues=venues, selves=selves)

        def theirs(function, samples=0, seed=0):
            options = {"year": arguments.year, "samples": samples, "seed": seed}
            return ask(arguments.python, function.__name__, data, options, folder)

        if arguments.measure == "cd":
            ours = cd_index(graph, WINDOW)
            row("cdindex", "CD_5", ours, theirs(cdindex), everyone)
            row("cdindex", "CD_5, self-citations given", ours, theirs(cdindex_with_self_citations), everyone)
            values = theirs(pyscisci)
            row("pyscisci", "CD_5", ours, values, everyone)
            row("pyscisci", "its own rule, written here", pyscisci_rule(graph, range(years.size)), values, everyone)
            values = theirs(novelpy_disruption)
            row("novelpy", "DI1 against CD_5", ours, values, of_year)
            row("novelpy", "DI1 against CD without end", cd_index(graph, None), values, of_year)
            row("novelpy", "its own rule, written here", novelpy_rule(graph, nodes.tolist()), values, of_year)
            n_i, n_j, n_k = disruption_counts(graph, WINDOW)
            bare, uncited = graph.reference_counts == 0, n_i + n_j == 0
            print(f"\nWith a CD index: {(bare & ~uncited).sum():,} papers without references, ", end="")
            print(f"{(~bare & uncited & (n_k > 0)).sum():,} with references that nobody cites in the window.")
            return

        def own(samples, seed, of=graph):
            z = np.full((2, years.size), np.nan)
            z[:, nodes] = atypicality_of_year(of, venues, arguments.year, nodes, "shuffle", samples, seed)[0][0]
            return z

        default = own(400, 0)
        # pyscisci leaves out citing papers without a venue, so they are in none of its null networks either.
        citing, cited = graph.edges()
        known = (venues[citing] >= 0) & (venues[cited] >= 0)
        with_venue = own(400, 0, CitationGraph.from_edges(citing[known], cited[known], years))
        # novelpy scores papers with more than two references of a known venue.
        slots = np.bincount(citing[venues[cited] >= 0], minlength=years.size)
        more_than_two = np.where(slots > 2, default, np.nan)
        for samples in arguments.samples:
            runs = {
                "scisci-gym": own(samples, 1),
                "pyscisci": theirs(pyscisci_atypicality, samples),
                "novelpy": theirs(novelpy_atypicality, samples),
            }
            for place, name in enumerate(("z10", "z_median")):
                for package, z in runs.items():
                    measure = f"{name}, {samples} null networks"
                    row(package, measure, default[place], z if isinstance(z, str) else z[place], of_year)
                for package, ours, why in (
                    ("pyscisci", with_venue, "against ours of citing papers with a venue"),
                    ("novelpy", more_than_two, "against ours of more than two references"),
                ):
                    z = runs[package]
                    row(package, f"{name}, {why}", ours[place], z if isinstance(z, str) else z[place], of_year)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
        function = {each.__name__: each for each in CHILDREN}[sys.argv[2]]
        np.save("values.npy", function(dict(np.load(sys.argv[3])), json.loads(sys.argv[4])))
    else:
        main()
