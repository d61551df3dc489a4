"""Language models as challengers and judges: a Tinker model, or any OpenAI-compatible endpoint. Both can be pickled."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tinker_cookbook.completers import MessageCompleter, TinkerMessageCompleter
from tinker_cookbook.renderers import Message

from ..training.groups import renderer_name_for, renderer_of


@dataclass(frozen=True)
class TinkerCompleter(MessageCompleter):
    """A Tinker model, local or hosted: whatever `TINKER_BASE_URL` points at.

    Parameters
    ----------
    renderer_name, tokenizer_name : str
    base_model, model_path : str or None
        One of the two, as for `ServiceClient.create_sampling_client`.
    max_tokens : int
    temperature : float
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

    Parameters
    ----------
    model : str
        As litellm names it, such as ``"openai/NAME"``; an endpoint of your own is ``api_base`` in `arguments`, or the
        environment variable that litellm reads for it, such as ``OPENAI_API_BASE``.
    arguments : dict
        Passed on to ``litellm.acompletion``: ``api_base``, ``temperature``, ``max_tokens``, ...

    Raises
    ------
    ImportError
        If litellm is not installed: when the completer is made, before a run begins.
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

    Raises
    ------
    ValueError
        If neither the cookbook nor the folder `MODEL` says which renderer the model needs.
    """
    model, at, path = argument.partition("@tinker://")
    source: dict[str, Any] = {"model_path": f"tinker://{path}"} if at else {"base_model": model}
    return TinkerCompleter(renderer_name_for(model), model, **source, **options)
