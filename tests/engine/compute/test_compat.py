"""What the engine uses of transformers beyond its documented interface, by name."""

import importlib
import inspect
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from scisci_gym.engine.compute import compat


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("transformers", "AttentionInterface.register", ["key", "value"]),
        ("transformers", "AttentionMaskInterface.register", ["key", "value"]),
        ("transformers.cache_utils", "Cache", ["layers"]),
        ("transformers.cache_utils", "CacheLayerMixin.update", ["key_states", "value_states"]),
        ("transformers.cache_utils", "CacheLayerMixin.lazy_initialization", ["key_states", "value_states"]),
        ("transformers.cache_utils", "CacheLayerMixin.get_mask_sizes", ["query_length"]),
        ("transformers.cache_utils", "CacheLayerMixin.get_seq_length", []),
        ("transformers.cache_utils", "CacheLayerMixin.get_max_cache_shape", []),
        (
            "transformers.integrations.sdpa_attention",
            "sdpa_attention_forward",
            ["module", "query", "key", "value", "attention_mask", "scaling"],
        ),
        ("transformers.masking_utils", "sdpa_mask", []),
        ("transformers.modeling_layers", "GradientCheckpointingLayer", []),
        ("transformers.pytorch_utils", "Conv1D", ["nf", "nx"]),
        ("transformers.utils.logging", "disable_progress_bar", []),
    ],
)
def test_it_is_where_it_was(module: str, name: str, parameters: list[str]) -> None:
    found = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    assert set(parameters) <= set(inspect.signature(found).parameters)


def test_a_layer_of_a_cache_has_no_other_abstract_methods() -> None:
    """The engine's own layers implement these; a new one would have to be added."""
    assert compat.CacheLayerMixin.__abstractmethods__ <= {
        "get_mask_sizes", "get_max_cache_shape", "get_seq_length", "lazy_initialization", "update",
    }  # fmt: skip


def test_a_network_changes_its_attention_and_back(tiny_model: Path) -> None:
    net = AutoModelForCausalLM.from_pretrained(tiny_model)
    before = net.config._attn_implementation
    with compat.eager_attention(net):
        assert net.config._attn_implementation == "eager" != before
    assert net.config._attn_implementation == before


def test_the_body_runs_once_and_is_itself_again(tiny_model: Path) -> None:
    """The second call takes the first one's hidden states, whatever its tokens are."""
    net = AutoModelForCausalLM.from_pretrained(tiny_model)
    one, other = torch.tensor([[5, 6]]), torch.tensor([[7, 8]])
    results = []
    with torch.no_grad():
        expected = [net(one).logits, net(other).logits]
        with compat.body_runs_once(net, results):
            assert torch.equal(net(one).logits, expected[0])
        with compat.body_runs_once(net, results):
            assert torch.equal(net(other).logits, expected[0])
        assert torch.equal(net(other).logits, expected[1])
    assert len(results) == 1
