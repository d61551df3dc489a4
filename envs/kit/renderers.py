"""From the name of a model to the renderer that turns its conversations into tokens."""

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tinker_cookbook import model_info
from tinker_cookbook.exceptions import TinkerCookbookError
from tinker_cookbook.renderers import Renderer, get_renderer
from tinker_cookbook.tokenizer_utils import get_tokenizer

from ..compat import ThreadSafeTokenizer

_ANSWERING = ("qwen3_instruct", "llama3", "deepseekv3")
"""Renderers of models that answer at once, in the order in which they are tried,"""
_THINKING = (
    *("qwen3", "qwen3_5", "qwen3_8_xhigh_reasoning", "deepseekv3_thinking", "deepseekv4_1", "kimi_k2", "kimi_k25"),
    *("nemotron3", "nemotron3_ultra", "glm5_3_max_reasoning", "gpt_oss_medium_reasoning"),
)
"""and of those whose template knows a thinking block."""
_THOUGHTS = (("<think>", "</think>"), ("<|channel|>analysis", "<|channel|>final"))
"""What such a block begins and ends with, in the families that the cookbook has renderers for."""
_CONVERSATION: Any = [
    {"role": "system", "content": "Answer briefly."},
    {"role": "user", "content": "Is it new?"},
    {"role": "assistant", "content": "Yes."},
    {"role": "user", "content": "Are you sure?"},
]


@functools.lru_cache(maxsize=8)
def renderer_of(renderer_name: str, tokenizer_name: str) -> Renderer:
    """Renderer for a tokenizer (a hub name or a local folder), made once a process; see `registered_name`."""
    tokenizer: Any = ThreadSafeTokenizer(get_tokenizer(tokenizer_name))
    return get_renderer(registered_name(renderer_name), tokenizer, model_name=tokenizer_name)


def registered_name(renderer_name: str) -> str:
    """The name by which the cookbook knows a renderer. Of MODULE:NAME it is NAME, and the module that registers it is
    imported; raises `ValueError` if that fails."""
    module, _, name = renderer_name.rpartition(":")
    if module:
        try:
            import_module(module)
        except ImportError as error:
            raise ValueError(
                f"renderer {renderer_name}: {error}; install the package, or add it to PYTHONPATH"
            ) from error
    return name


def renderer_name_for(model_name: str, explicit: str | None = None) -> str:
    """Renderer of a model: the one asked for, the cookbook's recommendation, or for a local folder its chat template.

    Raises `ValueError` if the model is neither known to the cookbook nor a folder with a chat template that is
    recognised.
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
    if not Path(model_name, "config.json").is_file():
        raise ValueError(f"{model_name} is not a Hugging Face model folder: it has no config.json; check model_name")
    try:
        tokenizer: Any = get_tokenizer(model_name)
    except (OSError, ValueError, KeyError) as error:
        raise ValueError(f"the tokenizer in {model_name} cannot be read: {str(error).splitlines()[0]}") from error
    template = getattr(tokenizer, "chat_template", None) or ""
    thinks = any(start in template for start, _ in _THOUGHTS)
    for name in _THINKING if thinks else _ANSWERING:
        if template and _writes_as_template(name, model_name, tokenizer):
            return name
    raise ValueError(
        f"cannot tell the renderer of {model_name} from its chat template (it is not that of "
        f"{', '.join([*_ANSWERING, *_THINKING])}); pass renderer_name="
    )


def ends_in_thinking(text: str) -> bool:
    """Whether a text stops inside a thinking block: the end of a prompt, and what a policy wrote after it.

    Examples
    --------
    >>> ends_in_thinking("<|im_start|>assistant\\n<think>\\nThe abstract")
    True
    >>> ends_in_thinking("<think>It is old.</think><answer>neutral</answer>")
    False
    """
    return any(text.rfind(start) > text.rfind(end) for start, end in _THOUGHTS)


def _writes_as_template(name: str, model_name: str, tokenizer: Any) -> bool:
    """Whether a renderer asks for an answer in the very tokens in which the chat template does."""
    try:
        own = tokenizer.apply_chat_template(_CONVERSATION, add_generation_prompt=True, tokenize=False)
        rendered = renderer_of(name, model_name).build_generation_prompt(_CONVERSATION).to_ints()
        return tokenizer.encode(own, add_special_tokens=False) == rendered
    # A template may refuse a system message, and a tokenizer may lack the tokens of another family.
    except (TemplateError, TinkerCookbookError, ValueError, KeyError, AssertionError, TypeError, AttributeError):
        return False
