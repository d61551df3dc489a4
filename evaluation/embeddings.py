"""Sentence embeddings for a baseline, from a model that the user names; needs `pip install scisci-gym[embeddings]`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .features import Encoder


def sentence_encoder(model: str) -> Encoder:
    """An encoder by `sentence-transformers`, which embeds every text once and remembers it.

    Parameters
    ----------
    model : str
        Folder of a model, or its name on the Hugging Face hub.

    Raises
    ------
    ValueError
        If the package is not installed, or the model cannot be loaded.
    """
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise ValueError(
            "sentence embeddings need the package sentence-transformers: pip install 'scisci-gym[embeddings]'"
        ) from error
    looks_like_folder = model.startswith((".", "/", "~")) or Path(model).exists()
    if looks_like_folder and not Path(model).expanduser().is_dir():
        raise ValueError(
            f"no folder {model!r}; give the folder of a sentence-transformers model, or its name on the hub"
        )
    try:
        loaded = SentenceTransformer(str(Path(model).expanduser()) if looks_like_folder else model, device="cpu")
    except (OSError, ValueError) as error:
        raise ValueError(
            f"cannot load the sentence-transformers model {model!r}: {error}; without a network give its folder"
        ) from error
    return remembering(lambda texts: loaded.encode(list(texts), show_progress_bar=False, convert_to_numpy=True))


def remembering(encode: Encoder) -> Encoder:
    """`encode`, asked for every text only once: many environments are about the same papers."""
    known: dict[str, np.ndarray] = {}

    def encoder(texts: Sequence[str]) -> np.ndarray:
        new = list(dict.fromkeys(text for text in texts if text not in known))
        if new:
            known.update(zip(new, np.asarray(encode(new), dtype=float), strict=True))
        return np.stack([known[text] for text in texts])

    return encoder
