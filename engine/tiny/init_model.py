"""A tiny Qwen3 model with its own tokenizer, pre-trained for a minute on the prompts it will be asked."""

import json
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase, Qwen3Config, Qwen3ForCausalLM

from ..compute.compat import disable_progress_bar
from ..compute.loading import choose_threads
from ..compute.model import torch_threads
from ..folders import check_free, new_folder
from .chat_tokenizer import Prompt, answer_ids, messages, prompt_ids, train_tokenizer
from .pretraining import Documents, Labelled, answer_gap, pretrain, probe_score, tfidf_score

logger = logging.getLogger(__name__)

REPORT_FILE = "init_report.json"
"""Also the mark of a folder that `init_model` has made, and may replace."""

GAP_PROMPTS = 16
"""Prompts that `answer_gap` is measured on."""

Probe = Callable[[PreTrainedModel, PreTrainedTokenizerBase], float]


@dataclass(frozen=True)
class InitOptions:
    """How a tiny model is made.

    800 steps of 16 documents of 66 tokens take 45 to 60 s on a busy core. The result is reproducible on the same
    machine with the same number of threads.
    """

    answers: Sequence[str] | None = None  # One of them, drawn uniformly, ends every document; None: `whole_words`.
    whole_words: Sequence[str] = ()  # Words that become one token each, with and without a space before them.
    # One round of pre-training: batches, documents in each, and the peak learning rate.
    steps: int = 800
    batch_size: int = 16
    learning_rate: float = 5e-3
    max_rounds: int = 3  # Rounds before giving up on the probe and on the answers.
    max_answer_gap: float | None = None  # Another round is trained as long as `answer_gap` is larger; None: no limit.
    seed: int = 0  # Decides weights, order and answers.
    vocab_size: int = 1024  # Tokens in all, see `train_tokenizer`.
    # The architecture, a Qwen3.
    hidden_size: int = 128
    intermediate_size: int = 384
    layers: int = 2
    heads: int = 4
    kv_heads: int = 2
    max_positions: int = 4096
    threads: int | None = None  # Torch threads while training; the previous number is restored.
    progress: bool = True  # Whether to show a bar.
    notes: dict[str, Any] = field(default_factory=dict)  # What the report shall say besides.


@dataclass
class InitReport:
    """Size, losses and probe scores of a new model; also written to ``init_report.json`` in its folder."""

    folder: str
    parameters: int
    vocab_size: int
    longest_prompt: int  # In tokens, the end of the turn included, as in `longest_answer`.
    longest_answer: int = 0
    notes: dict[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    rounds: int = 0
    losses: list[tuple[float, float]] = field(default_factory=list)  # Mean nats a token at the ends of every round.
    probe_scores: list[float] = field(default_factory=list)  # Balanced accuracy after every round, if there is a probe.
    probe_target: float | None = None  # The accuracy that was asked for.
    reached: bool = True  # Whether the last score reached it; True without a probe.
    answer_gaps: list[float] = field(default_factory=list)  # `answer_gap` after every round; empty without a limit.


def init_model(
    out: str | Path,
    prompts: Sequence[Prompt],
    *,
    probe: Labelled | Probe | None = None,
    probe_target: float | None = None,
    **options: Any,
) -> InitReport:
    """Make a tiny model in `out`, a Hugging Face folder that the engine and transformers can load.

    Parameters
    ----------
    prompts
        Unlabelled prompts, as the environments will show them: each a user message, or a list of messages. They are the
        tokenizer's corpus and, in the chat frame of the `qwen3_instruct` renderer, the documents of pre-training.
    probe
        Labelled prompts of a validation set, half to fit a linear probe and half to score it; or a function from
        (model, tokenizer) to a score. If the score misses the target another round is trained, at half the learning
        rate.
    probe_target
        Default: 90 % of what TF-IDF with logistic regression reaches on the labelled prompts. Needed with a function.
    options
        Fields of `InitOptions` by name: answers, whole_words, steps, batch_size, learning_rate, seed, vocab_size and
        the other sizes, max_rounds, max_answer_gap, threads, progress, notes.

    Returns
    -------
    InitReport
        Whether the target was reached is in `reached`; missing it is reported, not raised.

    Raises
    ------
    TypeError
        If there is no such option.
    ValueError
        If there are no prompts or answers, a prompt does not fit `max_positions`, a whole word cannot be one token, or
        `out` holds something else than an earlier model of this function (which is replaced).
    """
    chosen = InitOptions(**options)
    answers = tuple(chosen.answers if chosen.answers is not None else chosen.whole_words)
    if not prompts or not answers:
        raise ValueError(
            f"init_model needs prompts and answers (or whole_words), got {len(prompts)} and {len(answers)}"
        )
    _check_out(Path(out))
    target = _target(probe, probe_target)
    started = time.monotonic()
    with torch_threads(choose_threads(chosen.threads)):
        corpus = [content for prompt in prompts for _, content in messages(prompt)]
        words = [*corpus, *answers, "system", "user", "assistant"]
        tokenizer = train_tokenizer(words, chosen.vocab_size, chosen.whole_words)
        documents = [np.asarray(ids) for ids in prompt_ids(tokenizer, prompts)]
        endings = [np.asarray(answer_ids(tokenizer, answer)) for answer in answers]
        longest = max(map(len, documents))
        longest_answer = max(map(len, endings))
        if longest + longest_answer > chosen.max_positions:
            raise ValueError(
                f"the longest prompt has {longest} tokens, more than max_positions {chosen.max_positions} allows"
            )
        model = _random_model(tokenizer, chosen)
        parameters = sum(p.numel() for p in model.parameters())
        report = InitReport(
            str(out), parameters, len(tokenizer), longest, longest_answer, chosen.notes, probe_target=target
        )
        supply = Documents(documents, endings, chosen.seed)
        for number in range(chosen.max_rounds):
            rate = chosen.learning_rate / 2**number
            losses = pretrain(model, supply, chosen.steps, chosen.batch_size, rate, progress=chosen.progress)
            report.rounds += 1
            report.losses.append((losses[0], float(np.mean(losses[-20:]))))
            if probe is not None and target is not None:
                score = probe(model, tokenizer) if callable(probe) else probe_score(model, tokenizer, probe)
                report.probe_scores.append(score)
                report.reached = score >= target
                logger.info("round %d: linear probe %.3f, target %.3f", number + 1, score, target)
            even = True
            if chosen.max_answer_gap is not None:
                gap = answer_gap(model, documents[:GAP_PROMPTS], endings)
                report.answer_gaps.append(gap)
                even = gap <= chosen.max_answer_gap
                logger.info("round %d: gap of the answers %.3f nats", number + 1, gap)
            if report.reached and even:
                break
    report.seconds = time.monotonic() - started
    _save(Path(out), model, tokenizer, report)
    return report


def _random_model(tokenizer: PreTrainedTokenizerBase, options: InitOptions) -> PreTrainedModel:
    shape: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": options.hidden_size,
        "intermediate_size": options.intermediate_size,
        "num_hidden_layers": options.layers,
        "num_attention_heads": options.heads,
        "num_key_value_heads": options.kv_heads,
        "head_dim": options.hidden_size // options.heads,
        "max_position_embeddings": options.max_positions,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(options.seed)
        return Qwen3ForCausalLM(Qwen3Config(**shape))


def _target(probe: Labelled | Probe | None, target: float | None) -> float | None:
    if probe is None or target is not None:
        return target
    if callable(probe):
        raise ValueError("a probe that is a function needs a probe_target")
    return 0.9 * tfidf_score(probe)


def _check_out(out: Path) -> None:
    """Refuse to replace anything but an earlier model of `init_model`."""
    try:
        check_free(out, overwrite=(out / REPORT_FILE).is_file())
    except FileExistsError as error:
        raise ValueError(f"{out} holds other things than a model of init_model; choose another folder") from error


def _save(out: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, report: InitReport) -> None:
    _check_out(out)
    # A bar over the one shard of a model of this size is noise.
    disable_progress_bar()
    with new_folder(out, overwrite=True) as folder:
        tokenizer.save_pretrained(folder)
        model.save_pretrained(folder)
        (folder / REPORT_FILE).write_text(json.dumps(asdict(report), indent=1))
