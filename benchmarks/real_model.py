"""The engine beside plain transformers and peft with a real language model: SFT, rollouts, and the RL step on them.

    scisci-gym engine get-model smollm2 --out models/smollm2
    python benchmarks/real_model.py models/smollm2

Both hold the same weights in the same number format and use the same number of threads; LoRA of rank 16 on all linear
layers but the head. Prompts are random tokens, nothing stops early, and losses are on the last `--sampled` tokens, of
which alone the peer computes logits, too. The two take turns; what is printed are medians of seconds and of ratios
within a turn, by the clock and by the processor's time of this process, which other work on the machine changes less.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

from scisci_gym.engine.compute.adapters import LoraSpec, new_adapter
from scisci_gym.engine.compute.loading import dtype_named, load_model
from scisci_gym.engine.compute.optimizer import AdamSettings, new_optimizer, optim_step
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.serve.backend import sampling_shape

RANK, ROWS_PER_PASS = 16, 16


class Ours:
    """The engine's sampler and trainer, in this process."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        self.base = load_model("model", folder, torch.device("cpu"), dtype)
        self.adapter = new_adapter(self.base.layers, LoraSpec(RANK, seed=0, train_unembed=False), self.base.device)
        self.optimizer = new_optimizer(self.adapter)
        self.sampler = Sampler(self.base, *sampling_shape(self.base))

    def step(self, sequences: np.ndarray, sampled: int) -> None:
        """A policy-gradient step with advantages of 1, which is one of SFT as well; sequences int64 (rows, T)."""
        data = []
        for tokens in sequences:
            weights = np.zeros(len(tokens) - 1, np.float32)
            weights[-sampled:] = 1
            inputs = {"target_tokens": tokens[1:], "logprobs": -5 * weights, "advantages": weights}
            data.append(TrainingDatum(tokens[:-1], inputs))
        forward_backward(self.base, self.adapter, data, "importance_sampling", {})
        optim_step(self.adapter, self.optimizer, AdamSettings(1e-5))

    def rollouts(self, prompts: np.ndarray, group: int, sampled: int) -> None:
        """`group` samples of each prompt."""
        keys = [tuple(f"{i}:{j}".encode() for j in range(group)) for i in range(len(prompts))]
        requests = [SampleRequest(tuple(p.tolist()), k, sampled) for p, k in zip(prompts, keys, strict=True)]
        self.sampler.sample(self.adapter.snapshot(), requests)


class Theirs:
    """transformers and peft as they are used."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        net = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        config = LoraConfig(r=RANK, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
        self.net: Any = get_peft_model(net, config)
        self.optimizer = torch.optim.AdamW([p for p in self.net.parameters() if p.requires_grad], lr=1e-5)

    def step(self, sequences: np.ndarray, sampled: int) -> None:
        """The same loss, in passes of `ROWS_PER_PASS` rows."""
        self.net.train()
        for start in range(0, len(sequences), ROWS_PER_PASS):
            tokens = torch.from_numpy(sequences[start : start + ROWS_PER_PASS])
            logits = self.net(input_ids=tokens[:, :-1], logits_to_keep=sampled).logits.float()
            chosen = logits.log_softmax(-1).gather(2, tokens[:, -sampled:, None])
            (-torch.exp(chosen + 5).sum()).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def rollouts(self, prompts: np.ndarray, group: int, sampled: int) -> None:
        """`generate`."""
        self.net.eval()
        tokens = torch.from_numpy(prompts)
        how = {"do_sample": True, "num_return_sequences": group, "min_new_tokens": sampled, "max_new_tokens": sampled}
        with torch.no_grad():
            self.net.generate(input_ids=tokens, attention_mask=torch.ones_like(tokens), **how)


def seconds(action: Callable[[Any], None], contender: Any) -> tuple[float, float]:
    """By the clock, and of the processor."""
    clock, processor = time.perf_counter(), time.process_time()
    action(contender)
    return time.perf_counter() - clock, time.process_time() - processor


def main() -> None:
    """Measure and print one line of JSON for every task."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--sft", type=int, default=16, help="sequences of an SFT step")
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--sampled", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = dtype_named(args.dtype)
    assert dtype is not None
    ours, theirs = Ours(args.model, dtype), Theirs(args.model, dtype)
    rng = np.random.default_rng(0)

    def tokens(rows: int, length: int) -> np.ndarray:
        return rng.integers(1000, ours.base.vocab_size, (rows, length))

    sft = tokens(args.sft, args.prompt + args.sampled)
    prompts = tokens(args.groups, args.prompt)
    rollouts = np.concatenate([prompts.repeat(args.group, 0), tokens(args.groups * args.group, args.sampled)], axis=1)
    tasks: dict[str, Callable[[Any], None]] = {
        "sft_step": lambda one: one.step(sft, args.sampled),
        "rollouts": lambda one: one.rollouts(prompts, args.group, args.sampled),
        "rl_step": lambda one: one.step(rollouts, args.sampled),
    }
    for task, act in tasks.items():
        load = os.getloadavg()[0]
        # The first turn warms up.
        turns = [[seconds(act, one) for one in (theirs, ours)] for _ in range(args.repeats + 1)][1:]
        result: dict[str, Any] = {"task": task}
        for place, kind in enumerate(("clock", "processor")):
            result[f"ours_{kind}_s"] = round(statistics.median(turn[1][place] for turn in turns), 2)
            result[f"peer_{kind}_s"] = round(statistics.median(turn[0][place] for turn in turns), 2)
            ratios = sorted(turn[0][place] / turn[1][place] for turn in turns)
            result[f"{kind}_ratio"] = [round(value, 2) for value in (statistics.median(ratios), ratios[0], ratios[-1])]
        settings = {**vars(args), "model": args.model.name, "load": [load, os.getloadavg()[0]]}
        print(json.dumps({**result, **settings}), flush=True)


if __name__ == "__main__":
    main()
