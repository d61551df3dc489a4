"""How fast the local engine samples and trains a tiny model, through the real SDK over HTTP.

    python benchmarks/engine.py                       # 8 groups of 8 rollouts, prompts of 300 tokens, 32 sampled
    python benchmarks/engine.py --prompt 66 --max-tokens 8 --groups 32
    python benchmarks/engine.py --peer FILE.py        # round by round against another server of the protocol

Medians over `--repeats`, with the machine's load beside them: on shared cores, compare ratios of runs made one
after the other.
"""

import argparse
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import tinker
from tinker import types

from scisci_gym.engine import local_engine
from scisci_gym.engine.tiny.init_model import init_model

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


class Contender:
    """A service under measurement."""

    def __init__(self, url: str, key: str, model: str) -> None:
        service = tinker.ServiceClient(base_url=url, api_key=key)
        self.trainer = service.create_lora_training_client(base_model=model, rank=16, seed=0).result()
        self.sampling: list[float] = []
        self.training: list[float] = []

    def round(self, args: argparse.Namespace, rng: random.Random) -> None:
        """A step of RL: rollouts of new prompts, and training on them."""
        sampler = self.trainer.save_weights_and_get_sampling_client().result()
        prompts = [[rng.randrange(10, 300) for _ in range(args.prompt)] for _ in range(args.groups)]
        start = time.perf_counter()
        sequences = rollouts(sampler, prompts, args.group, args.max_tokens)
        middle = time.perf_counter()
        train_step(self.trainer, sequences, args.max_tokens)
        self.sampling.append(middle - start)
        self.training.append(time.perf_counter() - middle)


PEER = """
import importlib.util, sys, threading
spec = importlib.util.spec_from_file_location("peer", sys.argv[1])
peer = importlib.util.module_from_spec(spec)
spec.loader.exec_module(peer)
import torch
torch.set_num_threads(1)
print(peer.start({}, sys.argv[2]).port, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def running_peer(file: str, folder: Path) -> Iterator[str]:
    """Serve another engine from a process of its own: a Python file with ``start(models, folder)`` -> object with a
    ``port``.
    """
    command = [sys.executable, "-c", PEER, file, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        assert child.stdout is not None
        try:
            yield f"http://127.0.0.1:{int(child.stdout.readline())}"
        finally:
            child.kill()


def main() -> None:
    """Print the medians as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=300)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--in-thread", action="store_true", help="serve from a thread of this process")
    parser.add_argument("--adapter", choices=("lora", "dora"), default="lora")
    parser.add_argument("--peer", help="a Python file that serves the same protocol; rounds alternate with its")
    args = parser.parse_args()
    rng = random.Random(1)
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        make_model(scratch / "model")
        engine = stack.enter_context(
            local_engine(
                checkpoints=scratch / "ck", threads=args.threads, process=not args.in_thread, adapter=args.adapter
            )
        )
        ours = Contender(engine.url, engine.api_key, str(scratch / "model"))
        theirs = None
        if args.peer:
            url = stack.enter_context(running_peer(args.peer, scratch / "peer"))
            theirs = Contender(url, "tml-local", str(scratch / "model"))
        for _ in range(args.repeats + 1):
            for contender in filter(None, (theirs, ours)):
                contender.round(args, rng)
    # The first round loads and warms up.
    sampling, training = ours.sampling[1:], ours.training[1:]
    result: dict[str, object] = {
        "sampling_s": statistics.median(sampling),
        "training_s": statistics.median(training),
        "rollouts_per_s": round(args.groups * args.group / statistics.median(sampling), 1),
    }
    if theirs is not None:
        for name, mine, peers in (("sampling", sampling, theirs.sampling), ("training", training, theirs.training)):
            ratios = sorted(peer / own for own, peer in zip(mine, peers[1:], strict=True))
            result[f"peer_{name}_s"] = statistics.median(peers[1:])
            spread = {"median": statistics.median(ratios), "least": ratios[0], "most": ratios[-1]}
            result[f"{name}_speedup"] = {key: round(value, 2) for key, value in spread.items()}
    machine = {"load": os.getloadavg()[0], "cores": os.cpu_count()}
    print(json.dumps({**vars(args), **result, **machine}))


if __name__ == "__main__":
    main()
