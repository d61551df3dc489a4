"""Full-parameter pre-training of a tiny model on prompts that end in a random answer.

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
from torch import Tensor
from transformers import PreTrainedModel

logger = logging.getLogger(__name__)


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
