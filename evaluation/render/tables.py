"""Results as tables: leaderboards and probes for a terminal of 80 columns, in Markdown, and for pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from ..bootstrap import Score
from ..leaderboard import Board, Entry, Leaderboard, Versus

SMALL_P = 0.001
FLIP_COLUMNS = ("before", "after", "net_gain", "right_to_wrong", "wrong_to_right", "held", "followed")
FLIP_KINDS = {"argued": "any label", "truth": "the right label", "wrong": "a wrong label", "control": "nothing"}
WORDING_SCORES = ("accuracy", "agreement", "all_agree", "all_right")
ORDER_SCORES = ("accuracy", "agreement", "both_right", "always_first", "always_second", "position_bias")
SETTINGS = ("env", "options", "dataset", "split", "max_tokens", "max_examples", "seed", "control_rate", "draw", "limit")


@dataclass(frozen=True)
class ResultTable:
    """A table of a result, with notes below it; a terminal leaves out a `detail`, which only pages show."""

    title: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    detail: bool = False


def leaderboard_tables(result: Leaderboard) -> RenderableType:
    """One table for every environment; its main score with the 95 % interval, others without."""
    parts: list[RenderableType] = []
    for board in result.boards:
        # Examples and not papers: both orders of a pair are two.
        title = Text.assemble((f"{board.env_id}  ", "bold"), (f"{board.n:,} examples", "dim"))
        table = Table(title=title, title_justify="left", title_style="", box=None, padding=(0, 2, 0, 0), pad_edge=False)
        table.add_column("", max_width=30, overflow="fold")
        for heading in _headings(board)[1:]:
            table.add_column(heading, no_wrap=True, header_style="dim", justify="right")
        for entry in board.entries:
            table.add_row(*_cells(entry, board), style=None if entry.kind == "baseline" else "bold")
        parts += [table, *(Text(f"- {sentence(versus, board)}") for versus in board.versus), Text("")]
    return Group(*parts, *(Text(f"- {remark}") for remark in _remarks(result)))


def _headings(board: Board) -> list[str]:
    second = "macro-F1" if board.main_name == "accuracy" else "accuracy"
    return ["", board.main_name, second, "MCC", *([] if board.env_class.asks_for == "number" else ["AUROC"])]


def _cells(entry: Entry, board: Board) -> list[str]:
    outcome = entry.outcome
    second = outcome.scores.macro_f1 if board.main_name == "accuracy" else outcome.scores.accuracy
    scores: list[Score | None] = [second, outcome.scores.mcc]
    if board.env_class.asks_for != "number":
        scores.append(outcome.discrimination.auroc if outcome.discrimination else None)
    return [entry.name, str(outcome.main_score), *("" if score is None else f"{score.value:z.3f}" for score in scores)]


def _remarks(result: Leaderboard) -> list[str]:
    return [*(f"{env_id} left out: {reason}" for env_id, reason in result.skipped.items()), *result.notes]


def sentence(versus: Versus, board: Board) -> str:
    """A comparison in words; without McNemar's test where examples are not independent: both orders of a pair."""
    p, labels = versus.labels.mcnemar_p, versus.labels
    text = (
        f"{versus.first} against {versus.second}: difference in reward {versus.reward_difference.signed}; only the "
        f"first right: {labels.n_only_first_right}, only the second: {labels.n_only_second_right}"
    )
    if board.env_class.presentations > 1:
        return text
    return f"{text}; McNemar p {'<' if p < SMALL_P else '='} {max(p, SMALL_P):.3f}"


def leaderboard_markdown(result: Leaderboard, command: str) -> str:
    """The tables of a leaderboard as Markdown, with the command that made it."""
    options = result.options
    limit = f", at most {options.max_examples:,} examples for each environment" if options.max_examples else ""
    lines = [
        "# Leaderboard",
        "",
        f"Dataset `{options.dataset}` (content hash `{result.card['content_hash'][:16]}`), {options.split} split"
        f"{limit}, seed {options.seed}. Brackets: 95 % bootstrap intervals over examples.",
        "",
        *("```", command, "```", ""),
    ]
    for board in result.boards:
        headings = [*_headings(board), "answered", "mean reward"]
        lines += [f"## {board.env_id}", "", f"{board.n:,} examples; baselines first.", ""]
        lines += [f"| {' | '.join(headings)} |", f"| --- | {' | '.join(['---:'] * (len(headings) - 1))} |"]
        for entry in board.entries:
            answered, reward = entry.outcome.scores.answered, entry.outcome.reward.value
            cells = [*map(_markdown_text, _cells(entry, board)), f"{answered:.1%}", f"{reward:z.3f}"]
            lines.append(f"| {' | '.join(cells)} |")
        lines += ["", *(f"- {_markdown_text(sentence(versus, board))}" for versus in board.versus)]
        lines += [""] if board.versus else []
    lines += [f"- {_markdown_text(remark)}" for remark in _remarks(result)]
    return "\n".join(lines).rstrip() + "\n"


def _markdown_text(text: str) -> str:
    """Text that cannot break a table or become markup."""
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("\n", " ")


def probe_tables(name: str, result: dict[str, Any]) -> list[RenderableType]:
    """`result_tables` for a terminal, without details."""
    parts: list[RenderableType] = []
    for content in result_tables(name, result):
        if content.detail:
            continue
        # Titles of papers and tasks are not markup.
        table = Table(title=Text(content.title), title_justify="left", box=None, pad_edge=False)
        for index, heading in enumerate(content.headings):
            table.add_column(heading, justify="right" if index else "left", no_wrap=not index)
        for row in content.rows:
            table.add_row(*map(Text, row))
        parts += [table, *(Text(f"- {note}") for note in content.notes)]
    return parts


def result_tables(name: str, result: dict[str, Any]) -> list[ResultTable]:
    """The tables of a result that is not a leaderboard.

    Parameters
    ----------
    name : "contamination" | "flips" | "consistency" | "held_out_nll" | "pass_rates" | "public" | "inspect"
    result : dict
        As `contamination_report`, `flip_report`, `consistency_report`, `HeldOutNLL`, `pass_rates.shares`,
        `public_benchmarks` or `run_inspect` returns it, or as it was read from its file.
    """
    tables = {
        "contamination": _contamination,
        "flips": _flips,
        "consistency": _consistency,
        "held_out_nll": _held_out_nll,
        "pass_rates": _pass_rates,
        "public": _public,
        "inspect": _inspect,
    }[name](result)
    settings = [[_words(key), str(result[key])] for key in SETTINGS if result.get(key) is not None]
    return [*tables, ResultTable("Settings", ["", ""], settings, detail=True)] if settings else tables


def _words(name: str) -> str:
    return name.replace("_", " ")


def _score(score: dict[str, Any] | None, digits: int = 2) -> str:
    if score is None or score["value"] is None:
        return "-"
    interval = "" if score["low"] is None else f" [{score['low']:z.{digits}f}, {score['high']:z.{digits}f}]"
    return f"{score['value']:z.{digits}f}{interval}"


def _score_rows(scores: Mapping[str, Any], names: Sequence[str]) -> list[list[str]]:
    return [[_words(name), _score(scores[name], 3)] for name in names]


def _group_rows(groups: Mapping[str, dict[str, Any]], *names: str) -> list[list[str]]:
    return [
        [_words(group), f"{scores['n']:,}", *(_score(scores[name]) for name in names)]
        for group, scores in groups.items()
    ]


def _versions(packages: Mapping[str, str | None]) -> str:
    return ", ".join(f"{package} {version}" for package, version in packages.items() if version)


def _contamination(result: dict[str, Any]) -> list[ResultTable]:
    cutoff, titles, masked, twins = (result[name] for name in ("cutoff", "titles", "anonymised", "duplicates"))
    groups, details = {"all": result["scores"]}, {}
    if cutoff:
        groups |= {f"{name} {cutoff['cutoff']}": row for name, row in sorted(cutoff["scores"].items(), reverse=True)}
        details |= cutoff["scores_by_period"]
    if titles["summary"]:
        groups |= {f"title {name}": row for name, row in titles["scores_known"].items()}
        details |= {f"title {name}": row for name, row in titles["scores_by_tercile"].items()}
    groups["names, acronyms, numbers masked"] = masked["scores"]["anonymised"]
    if twins["near_duplicates"]:
        groups |= {f"{name} of training papers": row for name, row in twins["scores"].items()}
    notes = [
        _title_note(titles),
        f"masking costs {_score(masked['plain_minus_anonymised']['accuracy_difference'], 3)} accuracy; "
        f"{masked['same_answer']:.0%} of the answers stay the same",
        f"{twins['near_duplicates']:,} of {twins['test_papers']:,} papers resemble one of {twins['train_papers']:,} "
        f"training papers by {twins['threshold']:g} or more (Jaccard index)",
    ]
    differences = [
        ["before the cutoff minus after", _score(cutoff and cutoff["accuracy_before_minus_after"], 3)],
        ["title known minus unknown", _score(titles.get("accuracy_known_minus_unknown"), 3)],
    ]
    completions = [
        [best["shown"], best["rest"], best["completion"], f"{best['score']:.2f}"]
        for best in titles.get("best_completions", ())
    ]
    pairs = [[pair["test_title"], pair["train_title"], f"{pair['resemblance']:.2f}"] for pair in twins["pairs"]]
    main, every = ("accuracy", "macro_f1"), ("accuracy", "balanced_accuracy", "macro_f1", "mcc")
    tables = [
        ResultTable("Contamination", ["papers", "n", "accuracy", "macro-F1"], _group_rows(groups, *main), notes),
        ResultTable(
            "All groups of papers",
            ["papers", "n", "accuracy", "balanced accuracy", "macro-F1", "MCC"],
            _group_rows({**groups, **details}, *every),
            detail=True,
        ),
        ResultTable("Differences of accuracy", ["", ""], differences, detail=True),
        ResultTable(
            "Best completions of titles", ["shown", "true rest", "completion", "match"], completions, detail=True
        ),
        ResultTable("Near-duplicates", ["test paper", "training paper", "resemblance"], pairs, detail=True),
    ]
    return [table for table in tables if table.rows]


def _title_note(titles: dict[str, Any]) -> str:
    summary = titles["summary"]
    if summary is None:
        return f"titles: none of {titles['too_short']:,} is long enough to be completed"
    verdict = "the model knows these papers" if summary["memorised"] else "no sign that the model knows these papers"
    return (
        f"titles: {summary['known']['value']:.1%} of {summary['probed']:,} completed word for word, "
        f"{summary['control_known']['value']:.1%} by chance: {verdict}"
    )


def _flips(result: dict[str, Any]) -> list[ResultTable]:
    headings, tables = ["argued for", "n", *map(_words, FLIP_COLUMNS)], []
    for name, flips in result["challengers"].items():
        rows = {kind: flips["rows"][kind] for kind in FLIP_KINDS if kind in flips["rows"]}
        apart = [row for kind, row in rows.items() if kind != "argued"]
        silent = sum(row["n"] * (1 - row["answered"]["value"]) for row in apart)
        challenged = sum(row["n"] for row in apart)
        notes = [f"{silent:.0f} of {challenged:,} challenged episodes ended without a final answer"]
        if not rows:
            notes = ["no first answer could be parsed, so none was challenged"]
        if flips["gain_over_control"]:
            notes.append(f"arguments gain {_score(flips['gain_over_control'], 3)} accuracy over the control")
        whole = _group_rows({FLIP_KINDS[kind]: row for kind, row in rows.items()}, *FLIP_COLUMNS)
        brief = [[cell.partition(" [")[0] if at > 1 else cell for at, cell in enumerate(row)] for row in whole]
        before = f"{flips['unchallenged']:,} of {flips['episodes']:,} episodes ended before it"
        tables.append(ResultTable(f"Under challenge by {name} ({before})", headings, brief, notes))
        tables.append(ResultTable(f"With 95 % intervals: {name}", headings, whole, detail=True))
    return tables


def _consistency(result: dict[str, Any]) -> list[ResultTable]:
    words = result["wordings"]
    rows = [*_score_rows(words, WORDING_SCORES), ["answered", f"{words['answered']:.3f}"]]
    by_wording = [[str(index), _score(score, 3)] for index, score in enumerate(words["accuracy_by_wording"])]
    tables = [
        ResultTable(f"Consistency over {words['wordings']} wordings ({words['n']:,} questions)", ["", ""], rows),
        ResultTable("Accuracy by wording (0 is the environment's own)", ["", ""], by_wording, detail=True),
    ]
    for index, orders in enumerate(result.get("orders", ())):
        title = f"Both orders of {orders['pairs']:,} pairs" + (f", wording {index}" if index else "")
        tables.append(ResultTable(title, ["", ""], _score_rows(orders, ORDER_SCORES), detail=index > 0))
    return tables


def _pass_rates(result: dict[str, Any]) -> list[ResultTable]:
    rows = [[name, f"{share:.3f}"] for name, share in result.items()]
    return [ResultTable("Attempts at temperature 1", ["", "share"], rows)]


def _held_out_nll(result: dict[str, Any]) -> list[ResultTable]:
    return [ResultTable("", ["", ""], [[name, f"{value:z.4g}"] for name, value in result.items()])]


def _public(result: dict[str, Any]) -> list[ResultTable]:
    rows = [
        [
            name,
            "-" if found["score"] is None else f"{found['score']:.3f}",
            *(f"{found[count]:,}" for count in ("n", "errors", "truncated")),
            "experimental" if found["experimental"] else "",
            found["problem"],
        ]
        for name, found in result["benchmarks"].items()
    ]
    headings = ["benchmark", "score", "n", "errors", "cut off", "status", "problem"]
    return [ResultTable("", headings, rows, [_versions(result["versions"])])]


def _inspect(result: dict[str, Any]) -> list[ResultTable]:
    rows = [
        [task["task"], str(task["version"]), f"{task['samples']:,}", metric, f"{value:z.4g}", task["log"]]
        for task in result["tasks"]
        for metric, value in task["metrics"].items()
    ]
    headings = ["task", "version", "samples", "metric", "value", "log"]
    return [ResultTable("", headings, rows, [_versions(result["packages"])])]
