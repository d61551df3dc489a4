"""The renderer of a local folder is the one that writes what its chat template writes."""

import json
from pathlib import Path

import pytest

from scisci_gym.envs.kit.renderers import renderer_name_for

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\n"
    "You are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + "
    "message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""Of SmolLM2-135M-Instruct, as its GGUF file has it."""


def with_template(template: str, model: Path, folder: Path) -> str:
    """A folder with the tokenizer of `model` and another chat template."""
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_text((model / name).read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps({**config, "chat_template": template}))
    return str(folder)


def test_a_tiny_model(tiny_model: Path) -> None:
    assert renderer_name_for(str(tiny_model)) == "qwen3_instruct"


@pytest.mark.parametrize(
    ("template", "renderer"),
    [
        (SMOLLM2, "qwen3_instruct"),
        ("{# knows <think> #}" + SMOLLM2, "qwen3"),
        (SMOLLM2.replace("assistant\n", "assistant\n<think>\n"), "qwen3_5"),
    ],
    ids=["answers", "may think", "begins to think"],
)
def test_a_frame_that_is_known(template: str, renderer: str, tiny_model: Path, tmp_path: Path) -> None:
    assert renderer_name_for(with_template(template, tiny_model, tmp_path / "model")) == renderer


def test_a_frame_that_only_looks_alike(tiny_model: Path, tmp_path: Path) -> None:
    """The same special tokens in another frame: the model would be asked in a form that it has not been trained on."""
    folder = with_template(SMOLLM2.replace("+ '\n' + message", "+ ': ' + message"), tiny_model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"cannot tell the renderer of .*/model .* pass renderer_name="):
        renderer_name_for(folder)
    assert renderer_name_for(folder, "qwen3_instruct") == "qwen3_instruct"
