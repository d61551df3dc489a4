"""A frozen Hugging Face causal language model whose linear layers can carry adapters."""

import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, PreTrainedTokenizerBase

from ..errors import RequestError
from ..options import Quantization
from . import attention
from .adapters import AdaptableLayer, AdapterWeights
from .compat import Cache, body_runs_once, in_and_out_features, keep_four_bits_packed, set_weight

logger = logging.getLogger(__name__)

SMALL = 20_000_000
"""Parameters below which the cost of a call to the model, not its arithmetic, decides the speed."""
MERGED_PARAMETERS = 200_000_000
"""Models up to this size (800 MB in float32) are copied to merge an adapter into them."""
_ATTENTION = ("attn", "attention")
_MLP = ("mlp", "ffn", "feed_forward", "feedforward", "experts", "fc1", "fc2")
_ROUTERS = ("gate", "router")


class UnsupportedArchitecture(RequestError):
    """The model cannot decode with a cache of keys and values; it can be served plainly, see `BaseModel`."""


class BaseModel:
    """A base model on its device, shared by every adapter trained on it.

    Parameters
    ----------
    name, folder
        What clients call it, and a local Hugging Face model folder.
    device, dtype
        Where its weights live and in which format. Adapters are always float32.
    quantize
        ``4bit``: its linear layers (but for the head) are kept in NF4 with double quantisation (Dettmers et al. 2023,
        QLoRA, arXiv:2305.14314) and computed in `dtype`.
    plain
        Every token is computed from the whole sequence with the model's own attention: slow, and right for every
        architecture. Otherwise prompts are shared and keys and values are kept.

    A `RequestError` refuses a folder without a causal language model, and `UnsupportedArchitecture` one that can only
    be served plainly; `load_model` decides.
    """

    def __init__(
        self,
        name: str,
        folder: Path,
        device: torch.device,
        dtype: torch.dtype,
        quantize: Quantization = "none",
        *,
        plain: bool = False,
    ) -> None:
        self.name, self.folder, self.device, self.dtype = name, folder, device, dtype
        self.quantize, self.plain = quantize, plain
        self.net, config, self.tokenizer = _read_pretrained(name, folder, device, dtype, quantize, plain=plain)
        self.config = config.get_text_config()
        head = self.net.get_output_embeddings()
        self.vocab_size: int = head.weight.shape[0]
        self.context_length: int = getattr(self.config, "max_position_embeddings", None) or 1 << 20
        self.num_layers: int = self.config.num_hidden_layers
        self.window = None if plain else _sliding_window(self.config)
        self.arch: str = type(self.net).__name__
        self.eos_ids = _eos_ids(self.net, self.tokenizer)
        self.layers: list[AdaptableLayer] = []
        self._adapter: AdapterWeights | None = None
        self._selected: Tensor | None = None
        if isinstance(head, nn.Linear) and head.bias is None:
            head.register_forward_hook(_add_what_was_rounded)
        for layer, module in self.net.named_modules():
            part = "unembed" if module is head else _part_of(layer)
            features = in_and_out_features(module)
            if part is not None and features is not None:
                self.layers.append(AdaptableLayer(layer, part, *features, module))
                module.register_forward_hook(partial(self._adapt, layer))
        head.register_forward_pre_hook(self._select_hook)
        parameters = sum(p.numel() for p in self.net.parameters())
        self.is_small = parameters < SMALL
        self.threads: int | None = None
        """Torch threads while the model computes; None: as many as elsewhere."""
        self._merges = dtype == torch.float32 and quantize == "none" and parameters <= MERGED_PARAMETERS
        logger.info("base model %s: %.1f M parameters on %s (%s)", name, parameters / 1e6, device, dtype)

    def _adapt(self, layer: str, _module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor | None:
        pair = self._adapter.pairs.get(layer) if self._adapter is not None else None
        return None if pair is None else pair.apply_to(args[0], output)

    def _select_hook(self, _module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor] | None:
        # The head is the widest layer: it sees only the positions whose logits are wanted. Cutting its input, and
        # not calling it ourselves, keeps whatever the model does to the logits afterwards (soft caps, scales).
        if self._selected is None:
            return None
        hidden = args[0]
        return (hidden.reshape(-1, hidden.shape[-1]).index_select(0, self._selected),)

    @contextmanager
    def using(self, adapter: AdapterWeights | None) -> Iterator[None]:
        """Run the model with `adapter` (None: the bare base model) inside the block.

        A frozen adapter is merged into the weights for that time where that is exact enough and fits into memory: a
        decoding step then costs what it costs without an adapter.
        """
        with torch_threads(self.threads):
            if adapter is not None and adapter.is_frozen and self._merges:
                with _merged(adapter):
                    yield
                return
            if adapter is not None:
                adapter.prepare()
            before, self._adapter = self._adapter, adapter
            try:
                yield
            finally:
                self._adapter = before

    def logits(
        self,
        tokens: Tensor,
        select: Tensor,
        *,
        positions: Tensor | None = None,
        mask: Tensor | dict[str, Tensor] | None = None,
        cache: Sequence[attention.SlotLayer] | None = None,
    ) -> Tensor:
        """Next-token logits at chosen places.

        Parameters
        ----------
        tokens
            int64 (B, L).
        select
            int64 (N,): places in the flattened (B * L) input.
        positions
            int64 (B, L); None counts from 0.
        mask
            Boolean (B, 1, L, S), True where a query may look; None is causal over `tokens`.
        cache
            Keys and values of the past, one for every layer of the model; extended in place.

        Returns
        -------
        float32 (N, vocabulary).
        """
        past = None if cache is None else Cache(layers=[*cache])
        given = {"position_ids": positions, "attention_mask": mask, "past_key_values": past}
        self._selected = select
        try:
            # Some architectures do not know all of these.
            supported = {name: value for name, value in given.items() if value is not None}
            out = self.net(input_ids=tokens, use_cache=past is not None, **supported)
        finally:
            self._selected = None
        return out.logits.float()

    def logits_in_parts(self, size: int, tokens: Tensor, select: Tensor, **given: Any) -> Iterator[Tensor]:
        """`logits` of the places `select`, `size` at a time: the network runs once, the head (by far the widest layer)
        and what follows it once per part.

        Where a gradient is wanted, the caller takes that of every part before the next part. It stops below the head,
        and goes through the network once, after the last part.
        """
        results: list[Any] = []
        for start in range(0, len(select), size):
            with body_runs_once(self.net, results):
                part = self.logits(tokens, select[start : start + size], **given)
            yield part
        if len(results) == 2:
            output, hidden = results
            hidden.backward(output.last_hidden_state.grad)

    def empty_cache(self) -> list[attention.SlotLayer]:
        """A cache for `logits` that takes over what is read first."""
        return [attention.SlotLayer() for _ in range(self.num_layers)]

    def decoding_mask(self, slot_positions: Tensor, query_positions: Tensor) -> Tensor | dict[str, Tensor]:
        """The mask of one decoding step, written out: left to itself the model would choose its attention path by
        what is in the batch, and a row's bits would depend on its neighbours.

        `slot_positions`, int64 (B, S), has each cache slot's position in its sequence, -1 for padding, and
        `query_positions`, int64 (B,), that of the token being decoded.
        """
        seen = (slot_positions >= 0)[:, None, None, :]
        if self.window is None:
            return seen
        near = (query_positions[:, None] - slot_positions < self.window)[:, None, None, :]
        if getattr(self.config, "layer_types", None) is None:
            return seen & near
        return {"full_attention": seen, "sliding_attention": seen & near}

    @property
    def tokenizer_path(self) -> str:
        """The folder, written so that the SDK loads the tokenizer from it.

        The SDK takes a name with exactly two slashes for ``org/model/variant`` and drops the last part.
        """
        path = str(self.folder.resolve())
        return path + "/." if path.count("/") == 2 else path

    def check_tokens(self, tokens: list[int], what: str, extra: int = 0) -> None:
        """Refuse token ids outside the vocabulary, and sequences (with `extra` tokens) longer than the context."""
        if not tokens:
            raise RequestError(f"{what} is empty; at least one token is needed")
        low, high = min(tokens), max(tokens)
        if low < 0 or high >= self.vocab_size:
            bad = low if low < 0 else high
            raise RequestError(
                f"{what} holds token id {bad}, outside the vocabulary of {self.name!r} (0 to {self.vocab_size - 1})"
            )
        if len(tokens) + extra > self.context_length:
            plus = f" plus max_tokens {extra}" if extra else ""
            raise RequestError(
                f"{what} has {len(tokens)} tokens{plus}, more than the context of {self.name!r} ({self.context_length})"
            )


def _add_what_was_rounded(head: nn.Module, args: tuple[Tensor, ...], logits: Tensor) -> Tensor | None:
    """Logits in float32 of a head that computes in 16 bits.

    bfloat16 has steps of 0.125 at a logit of 20, which sampler and trainer would round to different sides. The sum
    inside a product is float32 and rounded at its end: the product minus the rounded logits is what was lost.
    """
    if logits.dtype == torch.float32:
        return None
    hidden = args[0].flatten(0, -2)
    weight: Any = head.weight
    with torch.no_grad():
        lost = torch.addmm(logits.flatten(0, -2), hidden, weight.T, beta=-1).view(logits.shape)
    return logits.float().add_(lost)


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Inside the block torch has so many threads; None: as many as outside."""
    before = torch.get_num_threads()
    if count is None or count == before:
        yield
        return
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _merged(adapter: AdapterWeights) -> Iterator[None]:
    modules = [pair.layer.module for pair in adapter.pairs.values()]
    before = [module.weight for module in modules]
    try:
        for pair in adapter.pairs.values():
            set_weight(pair.layer.module, pair.merged())
        yield
    finally:
        for module, weight in zip(modules, before, strict=True):
            module.weight = weight


def _read_pretrained(
    name: str, folder: Path, device: torch.device, dtype: torch.dtype, quantize: Quantization, *, plain: bool
) -> tuple[Any, Any, PreTrainedTokenizerBase]:
    """Network (frozen, on its device), configuration and tokenizer; errors as in `BaseModel`."""
    config: Any = None
    how: dict[str, Any] = {"dtype": dtype, "attn_implementation": "eager" if plain else attention.NAME}
    try:
        if quantize == "4bit":
            nf4 = {"bnb_4bit_quant_type": "nf4", "bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": dtype}
            how |= {"quantization_config": BitsAndBytesConfig(load_in_4bit=True, **nf4), "device_map": {"": device}}
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        net: Any = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True, **how)
    except (OSError, ValueError, KeyError, ImportError) as error:
        if config is not None and attention.NAME in str(error):
            raise UnsupportedArchitecture(f"{config.model_type} has an attention of its own") from error
        raise RequestError(f"base model {name!r} at {folder} cannot be loaded: {error}") from error
    if not plain and "position_ids" not in inspect.signature(net.forward).parameters:
        raise UnsupportedArchitecture(f"{type(net).__name__} takes no position_ids")
    if quantize == "4bit":
        keep_four_bits_packed(net)
    else:
        # Quantised weights are put in their place while they are read.
        net = net.to(device)
    return net.eval().requires_grad_(False), config, tokenizer


def _part_of(name: str) -> str | None:
    """attn, mlp, or None for a layer that carries no adapter, by its name."""
    components = name.split(".")[::-1]
    if components[0] in _ROUTERS:
        return None
    for component in components:
        if any(word in component for word in _ATTENTION):
            return "attn"
        if any(word in component for word in _MLP):
            return "mlp"
    return None


def _sliding_window(config: Any) -> int | None:
    """Tokens that a layer looks back at; None if all look at everything."""
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if types is not None:
        if unknown := set(types) - {"full_attention", "sliding_attention"}:
            raise UnsupportedArchitecture(f"it has {', '.join(sorted(unknown))} layers")
        return window if "sliding_attention" in types else None
    return window if getattr(config, "use_sliding_window", True) else None


def _eos_ids(net: Any, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """Tokens that end a text where the request names none."""
    for source in (getattr(net, "generation_config", None), net.config, tokenizer):
        eos = getattr(source, "eos_token_id", None)
        if eos is not None:
            return frozenset(eos if isinstance(eos, list) else [eos])
    return frozenset()
