"""The options of `init_model`: one definition for Python and the command line."""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class InitOptions:
    """How a tiny model is made.

    800 steps of 16 documents of 66 tokens take 45 to 60 s on a busy core. The result is reproducible on the same
    machine with the same number of threads.
    """

    answers: Sequence[str] | None = None
    """Texts of which one, drawn uniformly, ends every document; None: `whole_words`. They teach the format only."""
    whole_words: Sequence[str] = ()
    """Words that become one token each, with and without a space before them."""
    steps: int = field(default=800, metadata={"help": "Steps of a round of pre-training."})
    batch_size: int = field(default=16, metadata={"help": "Documents per step."})
    learning_rate: float = field(default=0.005, metadata={"help": "Peak learning rate."})
    seed: int = field(default=0, metadata={"help": "Seed of weights, order and answers."})
    vocab_size: int = field(default=1024, metadata={"help": "Tokens in all."})
    hidden_size: int = field(default=128, metadata={"help": "Width."})
    intermediate_size: int = field(default=384, metadata={"help": "Width of the feed-forward layers."})
    layers: int = field(default=2, metadata={"help": "Layers."})
    heads: int = field(default=4, metadata={"help": "Attention heads."})
    kv_heads: int = field(default=2, metadata={"help": "Key-value heads."})
    threads: int | None = field(default=None, metadata={"help": "Torch threads."})
    max_positions: int = 4096
    """Tokens of the longest text that the model can read."""
    max_rounds: int = 3
    """Rounds of pre-training before giving up on the probe."""
    progress: bool = True
    """Whether to show a bar."""
