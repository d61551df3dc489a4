"""Full-parameter pre-training of a tiny model on prompts that end in a random answer, and a linear probe of the result.

LoRA cannot start from random weights (with tied embeddings it does not leave log V). Next-token prediction on
unlabelled prompts gives the model features; random answers give it the format and no label.
"""

import logging
from collections.abc import Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from rich.progress import Progress
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .chat_tokenizer import Prompt, messages, prompt_ids

logger = logging.getLogger(__name__)

Labelled = Sequence[tuple[Prompt, str]]
WEIGHT_DECAY, WARMUP = 0.1, 20
POOL = 8
"""Batches that are drawn together and sorted by length, so that little of a batch is padding."""


class Documents:
    """An endless shuffled supply of documents: a prompt with an answer drawn at random each time it comes up."""

    def __init__(self, prompts: Sequence[np.ndarray], answers: Sequence[np.ndarray], seed: int) -> None:
        self._prompts, self._answers = prompts, answers
        self._rng = np.random.default_rng(seed)
        self._order = self._indices()

    def _indices(self) -> Iterator[int]:
        while True:
            yield from self._rng.permutation(len(self._prompts)).tolist()

    def batches(self, size: int) -> Iterator[Tensor]:
        """Batches as `_padded` makes them."""
        while True:
            rows = [self._document(next(self._order)) for _ in range(POOL * size)]
            rows.sort(key=len)
            for start in self._rng.permutation(POOL) * size:
                yield _padded(rows[start : start + size])

    def _document(self, index: int) -> np.ndarray:
        answer = self._answers[int(self._rng.integers(len(self._answers)))]
        return np.concatenate([self._prompts[index], answer])


def _padded(rows: Sequence[np.ndarray]) -> Tensor:
    """int64 (rows, longest), padded with -1 on the right: out of sight of a causal model, it only must not count."""
    return pad_sequence([torch.from_numpy(row) for row in rows], batch_first=True, padding_value=-1)


def pretrain(
    model: PreTrainedModel, documents: Documents, steps: int, batch_size: int, peak_rate: float, *, progress: bool
) -> list[float]:
    """Train one round in place, with AdamW and a learning rate that falls linearly from its peak to zero.

    Returns the mean token loss (nats) of every step.
    """
    decayed = [p for p in model.parameters() if p.ndim > 1]
    other = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": WEIGHT_DECAY}, {"params": other, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=peak_rate, betas=(0.9, 0.95))
    losses = []
    batches = documents.batches(batch_size)
    model.train()
    with Progress(transient=True, disable=not progress) as bars:
        bar = bars.add_task("pre-training", total=steps)
        for step in range(steps):
            for group in optimizer.param_groups:
                group["lr"] = peak_rate * min((step + 1) / WARMUP, 1.0) * (1 - step / steps)
            batch = next(batches).to(model.device)
            logits = model(input_ids=batch[:, :-1].clamp(min=0)).logits
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=-1)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            bars.update(bar, advance=1, description=f"pre-training, loss {np.mean(losses[-20:]):.2f}")
    model.eval()
    logger.info("pre-trained %d steps: loss %.3f", steps, float(np.mean(losses[-20:])))
    return losses


@torch.inference_mode()
def answer_gap(model: PreTrainedModel, prompts: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> float:
    """How far a model is from giving all of some different answers the same chance, in nats; at least 0.

    It is the mean over prompts of the KL divergence from equal chances to the model's chances. A share s of
    texts that are none of them adds -log(1 - s), and unequal chances add to it as well.
    """
    losses = []
    for prompt in prompts:
        tokens = _padded([np.concatenate([prompt, answer]) for answer in answers]).to(model.device)
        logits = model(input_ids=tokens[:, :-1].clamp(min=0)).logits[:, len(prompt) - 1 :]
        said = tokens[:, len(prompt) :].flatten()
        loss = F.cross_entropy(logits.flatten(0, 1), said, ignore_index=-1, reduction="sum")
        losses.append(loss.item() / len(answers))
    return float(np.mean(losses)) - float(np.log(len(answers)))


def probe_score(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, labelled: Labelled) -> float:
    """Balanced accuracy (mean recall of the labels) on the second half of `labelled` of a probe fitted on the first.

    The most frequent label alone would meet a target of plain accuracy where another one is rare. Features are the last
    layer's hidden state at the last prompt token, the place where the answer is decided.
    """
    states = hidden_states(model, prompt_ids(tokenizer, [prompt for prompt, _ in labelled]))
    labels = np.asarray([label for _, label in labelled])
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500, class_weight="balanced"))
    return _half_and_half(probe, states, labels)


def tfidf_score(labelled: Labelled) -> float:
    """Balanced accuracy of TF-IDF with logistic regression, fitted and scored on the same halves as `probe_score`."""
    texts = np.asarray(["\n".join(content for _, content in messages(prompt)) for prompt, _ in labelled])
    labels = np.asarray([label for _, label in labelled])
    regression = LogisticRegression(C=3.0, max_iter=500, class_weight="balanced")
    words = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), regression)
    return _half_and_half(words, texts, labels)


def _half_and_half(classifier: Pipeline, features: np.ndarray, labels: np.ndarray) -> float:
    half = len(labels) // 2
    if len(set(labels[:half])) < 2:
        raise ValueError(
            f"the probe needs at least two labels among its first {half} examples, got {sorted(set(labels[:half]))}"
        )
    predicted, truth = classifier.fit(features[:half], labels[:half]).predict(features[half:]), labels[half:]
    return float(recall_score(truth, predicted, labels=np.unique(truth), average="macro"))


@torch.inference_mode()
def hidden_states(model: PreTrainedModel, sequences: Sequence[Sequence[int]], tokens_at_once: int = 8192) -> np.ndarray:
    """float32 (n, hidden): the last hidden state at the last token of each sequence."""
    order = sorted(range(len(sequences)), key=lambda i: len(sequences[i]))
    out = np.zeros((len(sequences), model.config.hidden_size), np.float32)
    while order:
        count = max(1, tokens_at_once // max(len(sequences[order[-1]]), 1))
        part, order = order[:count], order[count:]
        tokens = _padded([np.asarray(sequences[i]) for i in part]).clamp(min=0)
        hidden = model.base_model(input_ids=tokens.to(model.device)).last_hidden_state.float().cpu()
        for row, i in enumerate(part):
            out[i] = hidden[row, len(sequences[i]) - 1].numpy()
    return out
