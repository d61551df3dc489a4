"""Random tiny models of several architectures, with the tokenizer of another model."""

from pathlib import Path
from typing import Any

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

SIZE: dict[str, Any] = {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
DECODER = {**SIZE, "intermediate_size": 48, "num_key_value_heads": 2, "head_dim": 8, "max_position_embeddings": 128}

FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {**DECODER, "tie_word_embeddings": False},
    "gpt2": {"vocab_size": 400, "n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 128},
    "gpt_neox": {**SIZE, "intermediate_size": 48, "max_position_embeddings": 128},
    # Capped scores and, in every other layer, a window.
    "gemma2": {**DECODER, "query_pre_attn_scalar": 8, "sliding_window": 16, "attn_logit_softcapping": 2.0},
    # Positions by a bias on the scores: no position_ids.
    "bloom": {"vocab_size": 400, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    # No attention at all.
    "mamba": {"vocab_size": 400, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8},
    # Scores of tokens that are not there, which torch's kernel does not know: found out by the self-check.
    "gpt_oss": {**DECODER, "num_local_experts": 4, "sliding_window": 16},
}


def foreign_model(family: str, folder: Path, tiny_model: Path) -> Path:
    """A random model of `family` in `folder`, with the tokenizer of `tiny_model`."""
    config = CONFIG_MAPPING[family](**FAMILIES[family])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = AutoModelForCausalLM.from_config(config)
    net.save_pretrained(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).write_text((tiny_model / file).read_text())
    return folder
