"""Progress bars of all commands that read or fetch data."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import progress
from rich.text import Text


class _WorksPerSecond(progress.ProgressColumn):
    def render(self, task: progress.Task) -> Text:
        works, elapsed = task.fields["works"], task.elapsed or 0.0
        return Text(f"{works:,} works, {works / elapsed:,.0f}/s" if elapsed > 0.2 else f"{works:,} works")


@contextmanager
def reading_bar(
    total_bytes: int, shown: bool = True, title: str = "reading works"
) -> Iterator[Callable[[int, int], None]]:
    """A progress bar over `total_bytes`; yields a function to call with (bytes, works) read since the last call."""
    ends = progress.DownloadColumn(), _WorksPerSecond(), progress.TimeRemainingColumn()
    columns = (progress.TextColumn(title), progress.BarColumn(), *ends)
    with progress.Progress(*columns, disable=not shown, transient=True) as bar:
        task = bar.add_task("", total=total_bytes, works=0)

        def advance(read: int, works: int) -> None:
            bar.update(task, advance=read, works=bar.tasks[task].fields["works"] + works)

        yield advance


@contextmanager
def step_bars(shown: bool = True, *, transient: bool = True) -> Iterator[Callable[[str, int, int], None]]:
    """One progress bar for each step; yields a function to call with (step, done since the last call, expected).

    The bars disappear at the end if they are `transient`.
    """
    ends = progress.MofNCompleteColumn(), progress.TimeElapsedColumn()
    columns = (progress.TextColumn("{task.description}"), progress.BarColumn(), *ends)
    with progress.Progress(*columns, disable=not shown, transient=transient) as bar:
        tasks: dict[str, progress.TaskID] = {}

        def advance(step: str, done: int, expected: int) -> None:
            if step not in tasks:
                tasks[step] = bar.add_task(step, total=expected)
            bar.update(tasks[step], advance=done, total=expected)

        yield advance
