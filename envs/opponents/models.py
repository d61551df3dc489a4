"""Language models that challenge or judge: made from a name, asked within limits, and allowed to fail.

An endpoint may be down, hang, and answer with nothing, a megabyte or something that is not a text. None of that may end
a training run, and none of it may be hidden: `ask` logs every failure as a warning, and the environment reports it as a
metric. What the episode does instead is decided by the caller.
"""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, Generic, NamedTuple, TypeVar

from tinker_cookbook.completers import MessageCompleter, TinkerMessageCompleter
from tinker_cookbook.renderers import Message

from ..kit.renderers import renderer_name_for, renderer_of

logger = logging.getLogger(__name__)
Answer = TypeVar("Answer")
Thing = TypeVar("Thing")


@dataclass(frozen=True)
class Limits:
    """How long, how often, and how much.

    An attempt takes at most `timeout` seconds. There are `pause` seconds before the second attempt and twice as many
    before each later one. `longest` is the number of characters of an answer that are read.
    """

    timeout: float = 60.0
    attempts: int = 3
    pause: float = 1.0
    longest: int = 4_000

    def __post_init__(self) -> None:
        if not (self.timeout > 0 and self.attempts >= 1 and self.pause >= 0 and self.longest >= 1):
            raise ValueError(f"timeout, attempts and longest must be positive and pause not negative, got {self!r}")


LIMITS = Limits()


async def ask(
    call: Callable[[], Awaitable[object]], read: Callable[[str], Answer | None], limits: Limits = LIMITS
) -> Answer | None:
    """What a model answered, or None if every attempt failed.

    `call` starts one attempt, which fails if it raises an `Exception`, takes longer than `limits.timeout`, or gives
    something that is not a text. One that blocks the event loop cannot be interrupted. `read` makes the answer of the
    first `limits.longest` characters; None where they hold none, which is a failure too.

    Raises `asyncio.CancelledError` if the caller, or the attempt itself, is cancelled: that ends a run and is no
    failure of the model.
    """
    for attempt in range(limits.attempts):
        if attempt:
            await asyncio.sleep(limits.pause * 2 ** (attempt - 1))
        try:
            text = await _within(limits.timeout, call)
            if not isinstance(text, str):
                raise TypeError(f"expected a text, got {type(text).__name__}")
            answer = read(text[: limits.longest])
            if answer is not None:
                return answer
            problem = f"no answer in {len(text)} characters: {text[:80]!r}"
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        logger.warning("attempt %d of %d failed: %s", attempt + 1, limits.attempts, problem[:500])
    return None


async def _within(seconds: float, call: Callable[[], Awaitable[object]]) -> object:
    """The result of an attempt, awaited for so many seconds at most."""
    task = asyncio.ensure_future(call())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            raise TimeoutError(f"no answer within {seconds:g} s")
        return task.result()
    finally:
        if not task.done():
            # Nobody waits for its end: an attempt that ignores its cancellation must not hold up the rollout.
            task.cancel()
            task.add_done_callback(lambda late: late.cancelled() or late.exception())


@dataclass(frozen=True)
class TinkerCompleter(MessageCompleter):
    """A Tinker model, local or hosted: whatever `TINKER_BASE_URL` points at.

    It samples from `model_path`, or from `base_model`, as `ServiceClient.create_sampling_client` does.
    """

    renderer_name: str
    tokenizer_name: str
    base_model: str | None = None
    model_path: str | None = None
    max_tokens: int = 256
    temperature: float = 1.0

    def __post_init__(self) -> None:
        if (self.base_model is None) == (self.model_path is None):
            raise ValueError("TinkerCompleter takes either base_model or model_path")

    @cached_property
    def _completer(self) -> MessageCompleter:
        # Made at the first use in each process: a client does not survive pickling into another one.
        import tinker

        client = tinker.ServiceClient().create_sampling_client(model_path=self.model_path, base_model=self.base_model)
        renderer = renderer_of(self.renderer_name, self.tokenizer_name)
        return TinkerMessageCompleter(client, renderer, self.max_tokens, temperature=self.temperature)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_completer"}

    async def __call__(self, messages: list[Message]) -> Message:
        return await self._completer(messages)


@dataclass(frozen=True)
class LiteLLMCompleter(MessageCompleter):
    """Any OpenAI-compatible endpoint, through litellm (``pip install 'scisci-gym[litellm]'``).

    The model is called as litellm names it, such as ``"openai/NAME"``. `arguments` are passed on to
    ``litellm.acompletion``: ``temperature``, ``max_tokens``, ..., and, for an endpoint of your own, ``api_base``, in
    place of which litellm reads an environment variable such as ``OPENAI_API_BASE``. If litellm is not installed,
    `ImportError` is raised when the completer is made, before a run begins.
    """

    model: str
    arguments: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            importlib.import_module("litellm")
        except ImportError as error:
            raise ImportError("LiteLLMCompleter needs litellm: pip install 'scisci-gym[litellm]'") from error

    async def __call__(self, messages: list[Message]) -> Message:
        litellm = importlib.import_module("litellm")
        answer = await litellm.acompletion(model=self.model, messages=messages, **self.arguments)
        return Message(role="assistant", content=answer.choices[0].message.content or "")


def tinker_completer(argument: str, **options: Any) -> TinkerCompleter:
    """The completer that ``MODEL`` or ``MODEL@tinker://PATH`` stands for; with a path, that checkpoint of the model.

    Raises `ValueError` if neither the cookbook nor the folder `MODEL` says which renderer the model needs.
    """
    model, at, path = argument.partition("@tinker://")
    source: dict[str, Any] = {"model_path": f"tinker://{path}"} if at else {"base_model": model}
    return TinkerCompleter(renderer_name_for(model), model, **source, **options)


class _Entry(NamedTuple, Generic[Thing]):
    make: Callable[[str], Thing]
    argument: str
    summary: str


class Named(Generic[Thing]):
    """A registry of what is made from a name and, for some names, an argument after a colon: ``litellm:openai/NAME``.

    `kind` is what the entries are called in error messages, such as ``"challenger"``, and `base` their type.
    """

    def __init__(self, kind: str, base: type[Thing]):
        self.kind, self.base = kind, base
        self._entries: dict[str, _Entry[Thing]] = {}
        # Each entry is made once per process, because it may hold a connection.
        self._made = lru_cache(maxsize=64)(self._make)

    def register(self, name: str, make: Callable[[str], Thing], summary: str, argument: str = "") -> None:
        """Add an entry; `ValueError` if the name is taken.

        `make` goes from the argument to the entry. In help texts `summary` is a line about it, and `argument` what the
        argument is called, such as ``"MODEL"``; empty for an entry that takes none, whose `make` gets an empty text.
        """
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is registered already")
        self._entries[name] = _Entry(make, argument, summary)

    def register_models(self, of: Callable[[MessageCompleter], Thing], **sampling: Any) -> None:
        """Add ``tinker:MODEL``, asked with these options of `TinkerCompleter`, and ``litellm:MODEL``."""
        engine = "a model of the engine, or MODEL@tinker://PATH for a checkpoint of it"
        self.register("tinker", lambda model: of(tinker_completer(model, **sampling)), engine, "MODEL")
        endpoint = (
            "any endpoint that litellm knows, such as litellm:openai/NAME with OPENAI_API_BASE and OPENAI_API_KEY"
        )
        self.register("litellm", lambda model: of(LiteLLMCompleter(model)), endpoint, "MODEL")

    def listing(self) -> dict[str, str]:
        """How each entry is written, and its summary."""
        return {
            f"{name}:{entry.argument}" if entry.argument else name: entry.summary
            for name, entry in self._entries.items()
        }

    def resolve(self, value: object) -> Thing:
        """What `value` is or names.

        Raises `ValueError` if it is neither an instance of `base` nor a registered name, or the argument of a name is
        missing or not wanted.
        """
        return value if isinstance(value, self.base) else self._made(str(value))

    def _make(self, text: str) -> Thing:
        name, _, argument = text.partition(":")
        if name not in self._entries or bool(argument) != bool(self._entries[name].argument):
            raise ValueError(f"no {self.kind} {text!r}; there is {', '.join(self.listing())}")
        return self._entries[name].make(argument)
