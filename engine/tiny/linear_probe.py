"""Linear probe: accuracy of a logistic regression on the model's hidden state at the end of the prompt."""

from collections.abc import Sequence

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from .chat_tokenizer import Prompt, all_prompt_ids, messages

Labelled = Sequence[tuple[Prompt, str]]


def probe_accuracy(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, labelled: Labelled) -> float:
    """Accuracy on the second half of `labelled` of a probe fitted on the first half.

    Features are the last layer's hidden state at the last prompt token, the place where the answer is decided.
    """
    states = hidden_states(model, all_prompt_ids(tokenizer, [prompt for prompt, _ in labelled]))
    labels = np.asarray([label for _, label in labelled])
    probe = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=500))
    return _half_and_half(probe, states, labels)


def tfidf_accuracy(labelled: Labelled) -> float:
    """Accuracy of TF-IDF with logistic regression, fitted and scored on the same halves as `probe_accuracy`."""
    texts = np.asarray(["\n".join(content for _, content in messages(prompt)) for prompt, _ in labelled])
    labels = np.asarray([label for _, label in labelled])
    words = make_pipeline(TfidfVectorizer(sublinear_tf=True, min_df=2), LogisticRegression(C=3.0, max_iter=500))
    return _half_and_half(words, texts, labels)


def _half_and_half(classifier: "make_pipeline", features: np.ndarray, labels: np.ndarray) -> float:  # pyright: ignore
    half = len(labels) // 2
    if len(set(labels[:half])) < 2:
        raise ValueError(
            f"the probe needs at least two labels among its first {half} examples, got {sorted(set(labels[:half]))}"
        )
    return float(classifier.fit(features[:half], labels[:half]).score(features[half:], labels[half:]))


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
