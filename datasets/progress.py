"""Progress bars over bytes read, with works a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text


class _WorksPerSecond(ProgressColumn):
    def render(self, task: Task) -> Text:
        works, elapsed = task.fields["works"], task.elapsed or 0.0
        return Text(f"{works:,} works, {works / elapsed:,.0f}/s" if elapsed > 0.2 else f"{works:,} works")


@contextmanager
def reading_bar(
    total_bytes: int, shown: bool = True, title: str = "reading works"
) -> Iterator[Callable[[int, int], None]]:
    """A progress bar over `total_bytes`; yields a function to call with (bytes, works) read since the last call."""
    columns = (TextColumn(title), BarColumn(), DownloadColumn(), _WorksPerSecond(), TimeRemainingColumn())
    with Progress(*columns, disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, works=0)

        def advance(read: int, works: int) -> None:
            bar.update(task, advance=read, works=bar.tasks[task].fields["works"] + works)

        yield advance
