"""Full-parameter pre-training of a tiny model on prompts that end in a random answer, and a linear probe of the result.

LoRA cannot start from random weights (with tied embeddings it does not leave log V). Next-token prediction on
unlabelled prompts gives the model features; random answers give it the format and no label.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

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
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .chat_tokenizer import Prompt, all_prompt_ids, messages

logger = logging.getLogger(__name__)

Labelled = Sequence[tuple[Prompt, str]]
POOL = 8
"""Batches that are drawn together and sorted by length, so that little of a batch is padding."""


@dataclass(frozen=True)
class TrainingPlan:
    """One round: `steps` batches of `batch_size` documents, AdamW with a learning rate that falls linearly to zero."""

    steps: int
    batch_size: int
    learning_rate: float
    weight_decay: float = 0.1
    warmup: int = 20

    def rate(self, step: int) -> float:
        """The learning rate of a step, counted from 0."""
        return self.learning_rate * min((step + 1) / self.warmup, 1.0) * (1 - step / self.steps)


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
        """int64 (size, longest), padded with -1 on the right."""
        while True:
            rows = [self._document(next(self._order)) for _ in range(POOL * size)]
            rows.sort(key=len)
            for start in self._rng.permutation(POOL) * size:
                part = rows[start : start + size]
                batch = np.full((size, len(part[-1])), -1, np.int64)
                for i, row in enumerate(part):
                    batch[i, : len(row)] = row
                yield torch.from_numpy(batch)

    def _document(self, index: int) -> np.ndarray:
        answer = self._answers[int(self._rng.integers(len(self._answers)))]
        return np.concatenate([self._prompts[index], answer])


def pretrain(model: PreTrainedModel, documents: Documents, plan: TrainingPlan, *, progress: bool) -> list[float]:
    """Train one round in place; return the mean token loss (nats) of every step."""
    decayed = [p for p in model.parameters() if p.ndim > 1]
    other = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": plan.weight_decay}, {"params": other, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=plan.learning_rate, betas=(0.9, 0.95))
    losses = []
    batches = documents.batches(plan.batch_size)
    model.train()
    with Progress(transient=True, disable=not progress) as bars:
        bar = bars.add_task("pre-training", total=plan.steps)
        for step in range(plan.steps):
            for group in optimizer.param_groups:
                group["lr"] = plan.rate(step)
            batch = next(batches).to(model.device)
            # Padding is on the right, out of sight of a causal model; it only must not count.
            logits = model(input_ids=batch[:, :-1].clamp(min=0)).logits
            loss = F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), ignore_index=-1)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(loss.item())
            bars.update(bar, advance=1, description=f"pre-training, loss {np.mean(losses[-20:]):.2f}")
    model.eval()
    logger.info("pre-trained %d steps: loss %.3f", plan.steps, float(np.mean(losses[-20:])))
    return losses


@torch.inference_mode()
def answer_gap(model: PreTrainedModel, prompts: Sequence[np.ndarray], answers: Sequence[np.ndarray]) -> float:
    """How far a model is from giving all of some different answers the same chance, in nats; at least 0.

    It is the mean over prompts of the KL divergence from equal chances to the model's chances. A share s of
    texts that are none of them adds -log(1 - s), and unequal chances add to it as well.
    """
    width = max(map(len, answers))
    losses = []
    for prompt in prompts:
        rows = np.full((len(answers), len(prompt) + width), -1, np.int64)
        for row, answer in zip(rows, answers, strict=True):
            row[: len(prompt) + len(answer)] = np.concatenate([prompt, answer])
        tokens = torch.from_numpy(rows).to(model.device)
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
    states = hidden_states(model, all_prompt_ids(tokenizer, [prompt for prompt, _ in labelled]))
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
        width = len(sequences[part[-1]])
        tokens = torch.zeros((len(part), width), dtype=torch.int64)
        for row, i in enumerate(part):
            tokens[row, : len(sequences[i])] = torch.tensor(sequences[i])
        hidden = model.base_model(input_ids=tokens.to(model.device)).last_hidden_state.float().cpu()
        for row, i in enumerate(part):
            out[i] = hidden[row, len(sequences[i]) - 1].numpy()
    return out
