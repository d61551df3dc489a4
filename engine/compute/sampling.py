"""Sampling: every distinct prompt is read once, all samples are decoded together, and no sample depends on the others.

A row's tokens must not change with what else is in the batch, but floating-point sums change with the shape of a matrix
product. So shapes never depend on the batch: prompts are padded to a width that follows from their own length,
prompts are read in groups of a fixed number of rows and decoded in blocks of a fixed number of rows (filled up with
copies), and masks are always given. Each row then goes through the same kernels with the same sizes however full
the batch is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np
import torch
from torch import Tensor

from .adapters import AdapterWeights
from .attention import UNITS_AT_ONCE, SlotLayer
from .decoding import DecodingBatch
from .memory import cache_bytes, check_fits, free_bytes
from .model import BaseModel
from .token_choice import ChoiceRule, choose_tokens, top_logprobs, uniforms

ROWS_AT_ONCE = 256
"""Samples decoded at the same time; more wait for the next round, so that the cache stays bounded."""
SCORED_AT_ONCE = 128
"""Prompt positions whose logits are computed at once."""


@dataclass(frozen=True)
class SampleRequest:
    """One `asample` request."""

    prompt: tuple[int, ...]
    keys: tuple[bytes, ...]  # One random key per sample.
    max_tokens: int  # At least 1.
    rule: ChoiceRule = field(default_factory=ChoiceRule)
    stop_ids: frozenset[int] = frozenset()  # Any of these, and of the strings, ends a sample and belongs to it.
    stop_strings: tuple[str, ...] = ()
    prompt_logprobs: bool = False  # Whether to score the prompt,
    score_last: int | None = None  # and how many of its last tokens; None: all but the first.
    topk_prompt: int = 0  # How many alternatives to report per position.
    topk_sampled: int = 0


TopK = tuple[np.ndarray, np.ndarray]
"""Token ids int32 (n, k) and their log-probabilities float32 (n, k)."""


@dataclass
class SampledTokens:
    """`tokens`, their log-probabilities under the untempered model, why it ended, and alternatives if asked for."""

    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    stopped: bool = False
    alternatives: list[TopK] = field(default_factory=list)


@dataclass
class SampleResult:
    """Samples in the order of the request's keys; `prompt_logprobs` float32 (len(prompt),), NaN where not scored."""

    sequences: list[SampledTokens]
    prompt_logprobs: np.ndarray | None = None
    topk_prompt: TopK | None = None


@dataclass
class _Row:
    """One sample being decoded."""

    request: SampleRequest
    out: SampledTokens
    randoms: np.ndarray

    def accept(self, token: int, logprob: float, base: BaseModel) -> bool:
        """Append a token; True when the sample is complete."""
        out, request = self.out, self.request
        out.tokens.append(token)
        out.logprobs.append(logprob)
        if token in request.stop_ids or (request.stop_strings and self._hits_string(base)):
            out.stopped = True
            return True
        return len(out.tokens) >= request.max_tokens

    def _hits_string(self, base: BaseModel) -> bool:
        # A stop string that was not there before must end in the last token, and every token holds at least one byte.
        reach = max(len(s.encode()) for s in self.request.stop_strings) + 4
        text = base.tokenizer.decode(self.out.tokens[-reach:], skip_special_tokens=False)
        return any(s in text for s in self.request.stop_strings)


_ReadPrompt = tuple[list[SlotLayer], Tensor]
"""Keys and values of one prompt in every layer, and the logits after it."""


class Sampler:
    """Samples from a base model with one adapter at a time.

    Every decoding step has `block_rows` rows. Larger blocks suit small models, whose cost is per call; results depend
    on it in the last bits, so it is fixed for the life of a server. A call reads as many whole prompts (at least one)
    as fit into `prompt_tokens` padded tokens.
    """

    def __init__(self, base: BaseModel, block_rows: int, prompt_tokens: int) -> None:
        self.base = base
        self.block_rows = block_rows
        self.prompt_tokens = prompt_tokens
        # By adapter (kept beside it, as another one could come to the same address) and prompt.
        self._ahead: dict[tuple[int, tuple[int, ...]], tuple[AdapterWeights | None, _ReadPrompt]] = {}

    @torch.inference_mode()
    def read_ahead(self, adapter: AdapterWeights | None, prompts: Sequence[tuple[int, ...]]) -> None:
        """Read prompts that `sample` will ask for with the same adapter, and keep them until `forget`."""
        if self.base.plain:
            return
        fresh = [p for p in dict.fromkeys(prompts) if (id(adapter), p) not in self._ahead]
        chosen = sorted(fresh[: max(0, ROWS_AT_ONCE - len(self._ahead))], key=len)
        with self.base.using(adapter):
            for width, group in groupby(chosen, lambda prompt: padded_width(len(prompt))):
                prompts = list(group)
                for prompt, read in zip(prompts, self._read_anew(prompts, width), strict=True):
                    self._ahead[id(adapter), prompt] = adapter, read

    def forget(self) -> None:
        self._ahead.clear()

    @torch.inference_mode()
    def sample(self, adapter: AdapterWeights | None, requests: Sequence[SampleRequest]) -> list[SampleResult]:
        """Serve requests that share an adapter."""
        results = [SampleResult([SampledTokens() for _ in request.keys]) for request in requests]
        rows = [
            _Row(request, out, uniforms(key, request.max_tokens))
            for request, result in zip(requests, results, strict=True)
            for key, out in zip(request.keys, result.sequences, strict=True)
        ]
        # Sorted, so that rows of one width and of one prompt share a round.
        rows.sort(key=lambda row: (self._width(row), row.request.prompt))
        with self.base.using(adapter):
            for width, members in groupby(rows, self._width):
                for part in self._rounds(list(members), width):
                    if self.base.plain:
                        self._decode_plainly(width, part)
                    else:
                        self._decode(adapter, width, part)
            self._score_prompts(requests, results)
        return results

    def _rounds(self, rows: list[_Row], width: int) -> Iterator[list[_Row]]:
        """Rows of one width, cut so that the keys and values of each part take at most half of the free memory."""
        if self.base.plain:
            yield from (rows[start : start + self.block_rows] for start in range(0, len(rows), self.block_rows))
            return
        free = free_bytes(self.base.device)
        part: list[_Row] = []
        kept = 0
        for row in rows:
            # A prompt is kept as it was read and in the units of a block, which are a few at least.
            known = bool(part) and part[-1].request.prompt == row.request.prompt
            more = row.request.max_tokens + (0 if known else 2 * width)
            crowded = free is not None and cache_bytes(self.base, kept + more) > free // 2
            if part and (crowded or len(part) == ROWS_AT_ONCE):
                yield part
                part = []
            if not part:
                kept, more = UNITS_AT_ONCE * width, row.request.max_tokens + 2 * width
                length = len(row.request.prompt)
                what = f"decoding {row.request.max_tokens} tokens after a prompt of {length}"
                check_fits(self.base, cache_bytes(self.base, kept + more), what)
            part.append(row)
            kept += more
        yield part

    def _width(self, row: _Row) -> int:
        """Width to which the prompt is padded, or, where every token is computed from it, the whole sequence."""
        return padded_width(len(row.request.prompt) + (row.request.max_tokens if self.base.plain else 0))

    def _decode_plainly(self, width: int, rows: list[_Row]) -> None:
        """Complete up to a block of `rows`, computing every token from the whole sequence, padded to `width`."""
        places = list(range(len(rows)))
        while places:
            tokens, last = _padded([[*row.request.prompt, *row.out.tokens] for row in rows], self.block_rows, width)
            logits = self.base.logits(self._tensor(tokens), self._tensor(last))
            places = self._choose(rows, places, logits[: len(rows)])

    def _decode(self, adapter: AdapterWeights | None, width: int, rows: list[_Row]) -> None:
        """Complete `rows`, whose prompts are all padded to `width`."""
        prompts = list(dict.fromkeys(row.request.prompt for row in rows))
        cache, logits = self._read(adapter, prompts, width)
        which = {prompt: i for i, prompt in enumerate(prompts)}
        source = torch.tensor([which[row.request.prompt] for row in rows], device=self.base.device)
        places = self._choose(rows, list(range(len(rows))), logits.index_select(0, source))
        if not places:
            return
        rows, source = [rows[i] for i in places], source[places]
        lengths = torch.tensor([len(row.request.prompt) for row in rows], device=self.base.device)
        batch = DecodingBatch(self.base, self.block_rows, cache, source, lengths)
        places, step = list(range(len(rows))), 0
        while places:
            if batch.keep(torch.tensor(places, device=self.base.device)):
                rows, places = [rows[i] for i in places], list(range(len(places)))
            logits = batch.step([row.out.tokens[-1] for row in rows], step)
            places = self._choose(rows, places, logits)
            step += 1

    def _read(
        self, adapter: AdapterWeights | None, prompts: list[tuple[int, ...]], width: int
    ) -> tuple[list[SlotLayer], Tensor]:
        """Cache and last logits (float32 (prompts, vocabulary)) of distinct prompts, padded on the right to `width`."""
        missing = [prompt for prompt in prompts if (id(adapter), prompt) not in self._ahead]
        anew = dict(zip(missing, self._read_anew(missing, width), strict=True))
        read = [anew[prompt] if prompt in anew else self._ahead[id(adapter), prompt][1] for prompt in prompts]
        layers = zip(*(layers for layers, _ in read), strict=True)
        return [SlotLayer.stack(layer) for layer in layers], torch.stack([logits for _, logits in read])

    def _read_anew(self, prompts: list[tuple[int, ...]], width: int) -> list[_ReadPrompt]:
        """Read prompts in groups of a fixed number of rows, of which the last may hold padding only."""
        group = max(1, self.prompt_tokens // width)
        read: list[_ReadPrompt] = []
        for start in range(0, len(prompts), group):
            part = prompts[start : start + group]
            tokens, last = _padded(part, group, width)
            cache = self.base.empty_cache()
            out = self.base.logits(self._tensor(tokens), self._tensor(last), cache=cache)
            for i in range(len(part)):
                read.append(([layer.mapped(lambda rows, i=i: rows[i : i + 1]) for layer in cache], out[i]))
        return read

    def _choose(self, rows: list[_Row], places: list[int], logits: Tensor) -> list[int]:
        """Give the rows at `places` their next token; return the places of those that go on."""
        acting = [rows[i] for i in places]
        if len(acting) < len(logits):
            logits = logits.index_select(0, torch.tensor(places, device=self.base.device))
        randoms = np.asarray([row.randoms[len(row.out.tokens)] for row in acting])
        logprobs = torch.log_softmax(logits, dim=-1)
        tokens = choose_tokens(logprobs, randoms, [row.request.rule for row in acting])
        chosen = logprobs.gather(1, tokens[:, None])[:, 0].tolist()
        live = []
        for i, (row, token, logprob) in enumerate(zip(acting, tokens.tolist(), chosen, strict=True)):
            if row.request.topk_sampled:
                row.out.alternatives.append(top_logprobs(logprobs[i], row.request.topk_sampled))
            if not row.accept(token, logprob, self.base):
                live.append(places[i])
        return live

    def _score_prompts(self, requests: Sequence[SampleRequest], results: list[SampleResult]) -> None:
        done: dict[tuple[tuple[int, ...], int | None, int], tuple[np.ndarray, TopK | None]] = {}
        for request, result in zip(requests, results, strict=True):
            if request.prompt_logprobs or request.topk_prompt:
                key = (request.prompt, request.score_last, request.topk_prompt)
                if key not in done:
                    done[key] = self._score(request)
                result.prompt_logprobs, result.topk_prompt = done[key]

    def _score(self, request: SampleRequest) -> tuple[np.ndarray, TopK | None]:
        """Log-probability of every prompt token given those before it."""
        prompt, k = request.prompt, request.topk_prompt
        tokens, _ = _padded([prompt], 1, padded_width(len(prompt)))
        first = 1 if request.score_last is None else len(prompt) - request.score_last
        scores = np.full(len(prompt), np.nan, np.float32)
        ids, values = np.zeros((len(prompt), k), np.int32), np.full((len(prompt), k), -99999.0, np.float32)
        # The token at i is predicted at i - 1; the last place is repeated to keep the shape of every part.
        count = len(prompt) - first
        select = np.pad(np.arange(first - 1, len(prompt) - 1), (0, -count % SCORED_AT_ONCE), mode="edge")
        parts = self.base.logits_in_parts(SCORED_AT_ONCE, self._tensor(tokens), self._tensor(select))
        for start, logits in zip(range(first, len(prompt), SCORED_AT_ONCE), parts, strict=True):
            places = np.arange(start, min(start + SCORED_AT_ONCE, len(prompt)))
            table = torch.log_softmax(logits, dim=-1)[: len(places)]
            scores[places] = table.gather(1, self._tensor(tokens[0, places])[:, None])[:, 0].cpu().numpy()
            for row, place in enumerate(places if k else ()):
                ids[place], values[place] = top_logprobs(table[row], k)
        return scores, (ids, values) if k else None

    def _tensor(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self.base.device)


def _padded(sequences: Sequence[Sequence[int]], rows: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """int64 (rows, width), sequences padded on the right and rows of zeros after them, and the flat place of the last
    token of every row, int64 (rows,), 0 where there is none.
    """
    tokens, last = np.zeros((rows, width), np.int64), np.zeros(rows, np.int64)
    for i, sequence in enumerate(sequences):
        tokens[i, : len(sequence)] = sequence
        last[i] = i * width + len(sequence) - 1
    return tokens, last


def padded_width(length: int) -> int:
    """Width to which a prompt of `length` tokens is padded: about 4 steps per doubling, so that few widths meet in
    a batch.
    """
    step = 16
    while step * 8 < length:
        step *= 2
    return -(-length // step) * step
