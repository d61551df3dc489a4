"""Where training and sampling happen: the local engine, hosted Tinker, or any service that speaks its protocol."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from ...engine import local_engine

Adapter = Literal["lora", "dora"]
Quantize = Literal["none", "4bit"]
ENGINE_HELP = "local, hosted, or the URL of a Tinker-compatible service; default: hosted if TINKER_API_KEY is set."


def engine_kind(choice: str | None) -> str:
    """Settle an ``--engine`` choice: "local", "hosted" or a URL.

    Raises
    ------
    ValueError
        For anything else, and for ``hosted`` without an API key.
    """
    kind = choice or ("hosted" if os.environ.get("TINKER_API_KEY") else "local")
    if kind == "hosted" and not os.environ.get("TINKER_API_KEY"):
        raise ValueError("engine hosted needs TINKER_API_KEY in the environment; without an account use --engine local")
    if kind not in ("local", "hosted") and not kind.startswith(("http://", "https://")):
        raise ValueError(f"engine must be local, hosted or a URL such as http://127.0.0.1:8000, got {kind!r}")
    return kind


@contextmanager
def open_engine(
    choice: str | None,
    checkpoints: str | Path,
    seed: int = 0,
    adapter: Adapter = "lora",
    quantize: Quantize = "none",
) -> Iterator[str]:
    """Make a service reachable through the environment variables that the Tinker SDK reads, and yield its kind.

    Parameters
    ----------
    choice : "local" | "hosted" | URL | None
        See `engine_kind`.
    checkpoints : path
        Where a local engine keeps weights and its log; checkpoints of an earlier run are found there again.
    seed : int
        Of a local engine's first weights and samples, for clients that name none; a recipe's run names its own
        (`run_seed`).
    adapter, quantize : what a local engine trains, and how it holds the base model

    Raises
    ------
    ValueError
        If DoRA or 4-bit weights are asked of a service that has its own way.
    """
    kind = engine_kind(choice)
    if kind != "local" and (adapter, quantize) != ("lora", "none"):
        raise ValueError(
            f"adapter={adapter} quantize={quantize} are options of the local engine; with --engine {kind} they are up "
            "to the service (a server of your own: scisci-gym engine serve --adapter dora --quantize 4bit)"
        )
    if kind == "hosted":
        yield kind
    elif kind == "local":
        folder = Path(checkpoints)
        folder.mkdir(parents=True, exist_ok=True)
        log = folder / "engine.log"
        with local_engine({}, checkpoints=folder, seed=seed, log=log, adapter=adapter, quantize=quantize):
            yield kind
    else:
        before = {name: os.environ.get(name) for name in ("TINKER_BASE_URL", "TINKER_API_KEY")}
        os.environ["TINKER_BASE_URL"] = kind
        # The SDK refuses to start without a key of this form, even where the service asks for none.
        os.environ.setdefault("TINKER_API_KEY", "tml-none")
        try:
            yield kind
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value


class EngineSwitch:
    """One engine at a time, for runs that may want different ones: opened when it is first needed, kept while nothing
    changes. A context manager; leaving it closes the last engine."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._settings: tuple[Any, ...] | None = None

    def __enter__(self) -> EngineSwitch:
        return self

    def __exit__(self, *exception: Any) -> None:
        self._stack.close()

    def to(
        self,
        choice: str | None,
        checkpoints: str | Path,
        adapter: Adapter = "lora",
        quantize: Quantize = "none",
    ) -> None:
        """Make an engine with these settings the open one; see `open_engine`. Seeds come with the runs."""
        settings = (choice, str(checkpoints), adapter, quantize)
        if settings != self._settings:
            self._stack.close()
            self._stack.enter_context(open_engine(choice, checkpoints, adapter=adapter, quantize=quantize))
            self._settings = settings
