"""How fast the local engine samples and trains a tiny model, through the real SDK over HTTP.

    python benchmarks/engine.py                       # 8 groups of 8 rollouts, prompts of 300 tokens, 32 sampled
    python benchmarks/engine.py --prompt 66 --max-tokens 8 --groups 32

Medians over `--repeats`, with the machine's load beside them: on shared cores, compare ratios of runs made one
after the other.
"""

import argparse
import json
import os
import random
import statistics
import tempfile
import time
from pathlib import Path

import tinker
from tinker import types

from scisci_gym.engine import local_engine
from scisci_gym.engine.init_model import init_model

WORDS = (
    "the of paper method result data model network field theory graph citation science system energy quantum".split()
)


def make_model(folder: Path) -> None:
    """A Qwen3 of 0.6 M parameters with a vocabulary of 1,024; random weights do for timing."""
    rng = random.Random(0)
    prompts = [" ".join(rng.choices(WORDS, k=60)) for _ in range(40)]
    init_model(folder, prompts, whole_words=["yes", "no"], steps=1, progress=False)


def rollouts(sampler: tinker.SamplingClient, prompts: list[list[int]], group: int, max_tokens: int) -> list[list[int]]:
    """One request per rollout, as the cookbook sends them; nothing stops early."""
    params = types.SamplingParams(max_tokens=max_tokens, stop=[])
    futures = [
        (prompt, sampler.sample(types.ModelInput.from_ints(prompt), 1, params))
        for prompt in prompts
        for _ in range(group)
    ]
    return [prompt + list(future.result().sequences[0].tokens) for prompt, future in futures]


def train_step(trainer: tinker.TrainingClient, sequences: list[list[int]], max_tokens: int) -> None:
    """One importance-sampling step on the rollouts."""
    data = []
    for i, tokens in enumerate(sequences):
        n = len(tokens) - 1
        acting = [0.0] * (n - max_tokens) + [1.0] * max_tokens
        inputs = {
            "target_tokens": tokens[1:],
            "logprobs": [-6.0 * a for a in acting],
            "advantages": [a * (-1.0) ** i for a in acting],
        }
        data.append(types.Datum(model_input=types.ModelInput.from_ints(tokens[:-1]), loss_fn_inputs=inputs))
    done = trainer.forward_backward(data, "importance_sampling")
    step = trainer.optim_step(types.AdamParams(learning_rate=1e-4))
    done.result()
    step.result()


def measure(model: str, args: argparse.Namespace) -> dict[str, float]:
    """Median seconds of sampling and of training, against the engine that the environment points at."""
    trainer = tinker.ServiceClient().create_lora_training_client(base_model=model, rank=16, seed=0).result()
    rng = random.Random(1)
    sampling, training = [], []
    for _ in range(args.repeats + 1):
        sampler = trainer.save_weights_and_get_sampling_client().result()
        prompts = [[rng.randrange(10, 300) for _ in range(args.prompt)] for _ in range(args.groups)]
        start = time.perf_counter()
        sequences = rollouts(sampler, prompts, args.group, args.max_tokens)
        middle = time.perf_counter()
        train_step(trainer, sequences, args.max_tokens)
        sampling.append(middle - start)
        training.append(time.perf_counter() - middle)
    # The first round loads and warms up.
    return {"sampling_s": statistics.median(sampling[1:]), "training_s": statistics.median(training[1:])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--in-thread", action="store_true", help="serve from a thread of this process")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model = Path(scratch, "model")
        make_model(model)
        with local_engine(checkpoints=Path(scratch, "ck"), threads=args.threads, process=not args.in_thread):
            result = measure(str(model), args)
    rate = round(args.groups * args.group / result["sampling_s"], 1)
    machine = {"load": os.getloadavg()[0], "cores": os.cpu_count()}
    print(json.dumps({**vars(args), **result, "rollouts_per_s": rate, **machine}))


if __name__ == "__main__":
    main()
