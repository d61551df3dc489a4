"""Tiny models: tokenizer, chat frame, pre-training and the gate."""

import json
import math
import random
from pathlib import Path

import pytest
import torch
from tinker_cookbook.renderers import get_renderer
from toy_data import LABELS, make_prompts
from transformers import AutoTokenizer, Qwen3ForCausalLM

from scisci_gym.engine.tiny.chat_tokenizer import answer_ids, prompt_ids, train_tokenizer
from scisci_gym.engine.tiny.init_model import GAP_PROMPTS, init_model
from scisci_gym.engine.tiny.pretraining import probe_score, tfidf_score

SMALL = {"hidden_size": 32, "intermediate_size": 64, "vocab_size": 500, "progress": False}


def labelled(count: int, seed: int) -> list[tuple[str, str]]:
    """Questions whose label shows in two words."""
    rng = random.Random(seed)
    pairs = []
    for prompt in make_prompts(count, seed):
        label = rng.choice(LABELS)
        pairs.append((f"{label[:2]}x {prompt} {label[:2]}y", label))
    return pairs


@pytest.mark.parametrize("word", ["disruptive", "consolidating", "x", "Straße", "neutral"])
def test_whole_words_are_one_token(word: str) -> None:
    tokenizer = train_tokenizer(make_prompts(50, 0), 800, [word, "consolid", "neutrality"])
    for form in (word, f" {word}"):
        ids = tokenizer.encode(form, add_special_tokens=False)
        assert len(ids) == 1
        assert tokenizer.decode(ids) == form
    assert len(tokenizer) <= 800
    assert len(tokenizer.encode(f"<answer>{word}</answer>")) > 3
    text = "nonneutral Ωmega\n\t<|im_end|> 漢字"
    assert tokenizer.decode(tokenizer.encode(text, split_special_tokens=True)) == text


@pytest.mark.parametrize("word", ["two words", "a-b", "<x>y"])
def test_words_that_cannot_be_one_token(word: str) -> None:
    with pytest.raises(ValueError, match="cannot be one token"):
        train_tokenizer(["some text"], 800, [word])


def test_a_vocabulary_that_is_too_small() -> None:
    with pytest.raises(ValueError, match="use 275 or more"):
        train_tokenizer(["some text"], 270, ["word"])


def test_the_frame_is_the_renderers(tiny_model: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    renderer = get_renderer("qwen3_instruct", tokenizer)
    talk = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which\n\nlabel? <|im_end|>"}]
    rendered = renderer.build_generation_prompt(talk).to_ints()  # pyright: ignore[reportArgumentType]
    short = renderer.build_generation_prompt([{"role": "user", "content": "Hi"}]).to_ints()
    assert prompt_ids(tokenizer, [talk, "Hi"]) == [rendered, short]
    plain = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Which label?"}]
    assert (
        tokenizer.apply_chat_template(plain, add_generation_prompt=True)["input_ids"]
        == prompt_ids(tokenizer, [plain])[0]
    )
    assert renderer.get_stop_sequences() == [answer_ids(tokenizer, LABELS[0])[-1]]
    assert len(answer_ids(tokenizer, LABELS[0])) == 2


def test_the_gate(tmp_path: Path) -> None:
    """Training goes on until the probe is satisfied, or rounds run out; the report says which."""
    pairs = labelled(300, 1)
    prompts = [prompt for prompt, _ in labelled(300, 2)]
    scores = iter([0.1, 0.2, 0.9])
    report = init_model(
        tmp_path / "a", prompts, whole_words=LABELS, steps=3, probe=lambda *_: next(scores), probe_target=0.5,
        max_rounds=5, **SMALL,
    )  # fmt: skip
    assert (report.rounds, report.reached, report.probe_scores) == (3, True, [0.1, 0.2, 0.9])
    report = init_model(
        tmp_path / "b", prompts, whole_words=LABELS, steps=40, batch_size=8, probe=pairs, max_rounds=1, **SMALL
    )
    assert report.probe_target == pytest.approx(0.9 * tfidf_score(pairs))
    assert report.reached == (report.probe_scores[0] >= report.probe_target)
    assert report.losses[0][1] < report.losses[0][0] - 1
    assert json.loads((tmp_path / "b" / "init_report.json").read_text())["rounds"] == 1


def test_a_rare_label_is_asked_for_too(tmp_path: Path) -> None:
    """Nine in ten have one label: always naming it is right nine times in ten, and tells nothing about the text."""
    pairs = [("rare word", LABELS[0]) if i % 10 == 0 else ("usual word", LABELS[1]) for i in range(100)]
    init_model(tmp_path / "m", [text for text, _ in pairs], whole_words=LABELS, steps=1, **SMALL)
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path / "m"), Qwen3ForCausalLM.from_pretrained(tmp_path / "m")
    torch.nn.init.zeros_(model.model.norm.weight)  # The hidden states of all texts are equal.
    assert probe_score(model, tokenizer, pairs) == 0.5
    assert tfidf_score(pairs) == 1.0


def test_training_goes_on_until_the_answers_are_equally_likely(tmp_path: Path) -> None:
    prompts = make_prompts(100, 0)
    options = {"whole_words": LABELS, "steps": 20, "batch_size": 8, "max_rounds": 2, **SMALL}
    assert init_model(tmp_path / "a", prompts, max_answer_gap=100.0, **options).rounds == 1
    report = init_model(tmp_path / "b", prompts, max_answer_gap=0.0, **options)
    assert (report.rounds, len(report.answer_gaps)) == (2, 2)
    # By hand, on the model that was saved: log(1/3) minus the mean log chance of the three labels.
    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path / "b"), Qwen3ForCausalLM.from_pretrained(tmp_path / "b")
    chances = []
    for asked in prompt_ids(tokenizer, prompts[:GAP_PROMPTS]):
        for label in LABELS:
            ids = torch.tensor([asked + answer_ids(tokenizer, label)])
            logs = model(ids).logits[0, len(asked) - 1 : -1].log_softmax(-1)
            chances.append(logs.gather(1, ids[0, len(asked) :, None]).sum().item())
    assert report.answer_gaps[-1] == pytest.approx(math.log(1 / 3) - sum(chances) / len(chances), abs=1e-4)


def test_a_seed_decides_everything(tmp_path: Path) -> None:
    for name in ("a", "b"):
        init_model(tmp_path / name, make_prompts(40, 0), whole_words=LABELS, steps=3, seed=4, **SMALL)
    for file in ("model.safetensors", "tokenizer.json"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()


def test_bad_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs prompts and answers"):
        init_model(tmp_path, [], whole_words=LABELS)
    with pytest.raises(ValueError, match="needs a probe_target"):
        init_model(tmp_path, ["x"], whole_words=LABELS, probe=lambda *_: 1.0)
    with pytest.raises(ValueError, match="max_positions 20"):
        init_model(tmp_path, make_prompts(40, 0), whole_words=LABELS, max_positions=20, **SMALL)
