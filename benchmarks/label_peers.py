"""CD_5 by this project and by everyone else: each function takes distinct edges and years and returns float64 (N,)."""

from __future__ import annotations

import numpy as np

WINDOW = 5


def scisci_gym(citing, cited, years):
    """This project: the graph is built and counted."""
    from scisci_gym.datasets.disruption import cd_index
    from scisci_gym.datasets.graph import CitationGraph

    return cd_index(CitationGraph.from_edges(citing, cited, years), WINDOW)


def _cdindex_api(package, citing, cited, years):
    graph = package.Graph()
    for paper, year in enumerate(years.tolist()):
        graph.add_vertex(paper, year)
    if (
        package.__name__ == "cdindex"
    ):  # its own `add_edge` looks through all edges in Python; this is the C call below it
        from cdindex import _cdindex

        for a, b in zip(citing.tolist(), cited.tolist(), strict=True):
            _cdindex.add_edge(graph._graph, a, b)
    else:
        for a, b in zip(citing.tolist(), cited.tolist(), strict=True):
            graph.add_edge(a, b)
        if hasattr(graph, "prepare_for_searching"):
            graph.prepare_for_searching()
    values = [graph.cdindex(paper, WINDOW) for paper in range(years.size)]
    return np.array([np.nan if value is None else value for value in values], np.float64)


def cdindex(citing, cited, years):
    """The PyPI package of the CD index."""
    import cdindex as package

    return _cdindex_api(package, citing, cited, years)


def fast_cdindex(citing, cited, years):
    """A package with the interface of `cdindex`."""
    import fast_cdindex as package

    return _cdindex_api(package, citing, cited, years)


def pyscisci(citing, cited, years):
    """Its citation window is relative to each cited paper, references included, so its numbers are others."""
    import pandas as pd
    from pyscisci.methods.disruption import disruption_index

    frame = pd.DataFrame(
        {
            "CitingPublicationId": citing,
            "CitedPublicationId": cited,
            "CitingYear": years[citing].astype(np.int64),
            "CitedYear": years[cited].astype(np.int64),
        }
    )
    result = disruption_index(frame, cite_window=[1, WINDOW])
    values = np.full(years.size, np.nan)
    values[result.iloc[:, 0].to_numpy()] = result.iloc[:, 1].to_numpy(np.float64, na_value=np.nan)
    return values


def duckdb(citing, cited, years):
    """One SQL query."""
    import duckdb as package
    import pyarrow as pa

    database = package.connect()
    database.execute("SET threads = 2")
    for name, columns in (
        ("e", {"citing": citing, "cited": cited}),
        ("p", {"id": np.arange(years.size), "year": years}),
    ):
        database.register("given", pa.table(columns))
        database.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
    rows = database.execute(
        f"""
        WITH later AS (SELECT e.citing, e.cited, p.year FROM e JOIN p ON p.id = e.citing),
        f AS (SELECT l.cited AS focal, l.citing AS c FROM later l JOIN p ON p.id = l.cited
              WHERE l.year > p.year AND l.year <= p.year + {WINDOW}),
        b AS (SELECT DISTINCT e.citing AS focal, l.citing AS c FROM e JOIN p ON p.id = e.citing
              JOIN later l ON l.cited = e.cited WHERE l.year > p.year AND l.year <= p.year + {WINDOW})
        SELECT focal, sum(s) / count(*) FROM (
            SELECT coalesce(f.focal, b.focal) AS focal,
                   CASE WHEN f.c IS NULL THEN 0 WHEN b.c IS NULL THEN 1 ELSE -1 END AS s
            FROM f FULL JOIN b ON f.focal = b.focal AND f.c = b.c) GROUP BY focal
        """
    ).fetchnumpy()
    focal, value = rows.values()
    values = np.full(years.size, np.nan)
    values[focal] = value
    return values


def scipy(citing, cited, years):
    """Products of sparse matrices, year by year."""
    from scipy.sparse import csr_array

    cites = csr_array((np.ones(citing.size, np.int32), (citing, cited)), shape=(years.size, years.size))
    values = np.full(years.size, np.nan)
    for year in np.unique(years):
        focal = np.flatnonzero(years == year)
        later = np.flatnonzero((years > year) & (years <= year + WINDOW))
        if not later.size:
            continue
        of_focal = cites[later][:, focal]
        of_references = cites[later] @ cites[focal].T
        of_references.data[:] = 1
        both = of_focal.multiply(of_references).sum(axis=0)
        n_i, n_k = of_focal.sum(axis=0) - both, of_references.sum(axis=0) - both
        with np.errstate(invalid="ignore"):
            values[focal] = (n_i - both) / (n_i + both + n_k)
    return values


PEERS = {
    "scisci-gym": scisci_gym,
    "scipy": scipy,
    "duckdb": duckdb,
    "pyscisci": pyscisci,
    "fast-cdindex": fast_cdindex,
    "cdindex": cdindex,
}
