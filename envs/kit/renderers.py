"""From the name of a model to the renderer that turns its conversations into tokens."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from tinker_cookbook import model_info
from tinker_cookbook.exceptions import TinkerCookbookError
from tinker_cookbook.renderers import Renderer, get_renderer
from tinker_cookbook.tokenizer_utils import get_tokenizer

from ..compat import ThreadSafeTokenizer


@functools.lru_cache(maxsize=8)
def renderer_of(renderer_name: str, tokenizer_name: str) -> Renderer:
    """Renderer for a tokenizer (a hub name or a local folder), made once a process."""
    tokenizer: Any = ThreadSafeTokenizer(get_tokenizer(tokenizer_name))
    return get_renderer(renderer_name, tokenizer, model_name=tokenizer_name)


def renderer_name_for(model_name: str, explicit: str | None = None) -> str:
    """Renderer of a model: the one asked for, the cookbook's recommendation, or for a local folder its chat template.

    Raises
    ------
    ValueError
        If the model is neither known to the cookbook nor a folder with a chat template that is recognised.
    """
    if explicit:
        return explicit
    if not Path(model_name).is_dir():
        try:
            return model_info.get_recommended_renderer_name(model_name)
        except (ValueError, KeyError, TinkerCookbookError) as error:
            raise ValueError(
                f"no folder {model_name!r}, and the cookbook does not know a model of that name ({error}); check "
                "model_name, or pass renderer_name="
            ) from error
    template = getattr(get_tokenizer(model_name), "chat_template", None) or ""
    if "<|im_start|>" in template:
        return "qwen3_instruct"
    raise ValueError(f"cannot tell the renderer of {model_name} from its chat template; pass renderer_name=")
