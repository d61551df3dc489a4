"""How far the log-probabilities of sampler and trainer lie apart with a real model, and how far each from float32.

    python benchmarks/agreement.py models/smollm2 --dtype bfloat16

Eight questions about papers, eight samples of up to 16 tokens each, an adapter of rank 16 whose B is drawn at random.
As a measure of what rounding alone does, the logits of one prompt are compared with those of the same prompt padded.
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from scisci_gym.engine.compute.adapters import AdapterWeights, LoraSpec, new_adapter
from scisci_gym.engine.compute.loading import dtype_named, load_model
from scisci_gym.engine.compute.model import BaseModel
from scisci_gym.engine.compute.sampling import Sampler, SampleRequest
from scisci_gym.engine.compute.training import TrainingDatum, forward_backward
from scisci_gym.engine.serve.backend import sampling_shape
from scisci_gym.envs.kit.samples import sample_papers

PROMPTS, GROUP, SAMPLED = 8, 8, 16


def adapter(base: BaseModel) -> AdapterWeights:
    """One that has moved a little away from where adapters start."""
    made = new_adapter(base.layers, LoraSpec(16, seed=0), base.device)
    generator = torch.Generator().manual_seed(1)
    for pair in made.pairs.values():
        pair.b.data = torch.randn(pair.b.shape, generator=generator) * 2e-3
    return made


def questions(base: BaseModel) -> list[tuple[int, ...]]:
    """Tokens of the prompts."""
    prompts = []
    for paper in sample_papers()[:PROMPTS]:
        text = f"Title: {paper.title}\nAbstract: {paper.abstract}\nIs this paper disruptive? Explain in one sentence."
        messages = [{"role": "user", "content": text}]
        chat = base.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        prompts.append(tuple(base.tokenizer.encode(str(chat))))
    return prompts


def by_trainer(base: BaseModel, sequences: list[tuple[tuple[int, ...], list[int]]]) -> np.ndarray:
    """Log-probabilities of the sampled tokens, float32, one sequence after the other."""
    data = []
    for prompt, sampled in sequences:
        tokens = np.array([*prompt, *sampled])
        weights = np.zeros(len(tokens) - 1, np.float32)
        weights[len(prompt) - 1 :] = 1
        data.append(TrainingDatum(tokens[:-1], {"target_tokens": tokens[1:], "weights": weights}))
    out = forward_backward(base, adapter(base), data, "cross_entropy", {}, backward=False)
    return np.concatenate([row[-len(own) :] for row, (_, own) in zip(out.logprobs, sequences, strict=True)])


def padding_alone(base: BaseModel, prompt: tuple[int, ...]) -> np.ndarray:
    """Differences of the 50 largest log-probabilities after a prompt, read as it is and padded by 33 tokens."""
    last = torch.tensor([len(prompt) - 1])
    with torch.no_grad():
        tables = [
            base.logits(torch.tensor([[*prompt, *[0] * padding]]), last).float().log_softmax(-1)[0]
            for padding in (0, 33)
        ]
    return (tables[0] - tables[1])[tables[0].topk(50).indices].numpy()


def main() -> None:
    """Print one line for every comparison."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--dtype", default="bfloat16")
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    dtype = dtype_named(args.dtype)
    assert dtype is not None
    base = load_model("model", args.model, torch.device("cpu"), dtype)
    prompts = questions(base)
    requests = [
        SampleRequest(prompt, tuple(f"{i}:{j}".encode() for j in range(GROUP)), SAMPLED, stop_ids=base.eos_ids)
        for i, prompt in enumerate(prompts)
    ]
    results = Sampler(base, *sampling_shape(base)).sample(adapter(base).snapshot(), requests)
    drawn = [(prompt, each) for prompt, result in zip(prompts, results, strict=True) for each in result.sequences]
    sequences = [(prompt, each.tokens) for prompt, each in drawn]
    sampler = np.concatenate([each.logprobs for _, each in drawn])
    trainer = by_trainer(base, sequences)
    comparisons = {"sampler and trainer": sampler - trainer, "padding alone": padding_alone(base, prompts[0])}
    if dtype != torch.float32:
        exact = by_trainer(load_model("model", args.model, torch.device("cpu"), torch.float32), sequences)
        comparisons |= {"sampler and float32": sampler - exact, "trainer and float32": trainer - exact}
    print("| log-probabilities compared | numbers | mean difference | median | 99 % | largest |")
    print("|---|---|---|---|---|---|")
    for name, differences in comparisons.items():
        size = np.abs(differences)
        cells = (size.mean(), np.median(size), np.quantile(size, 0.99), size.max())
        print(f"| {name} | {size.size} | " + " | ".join(f"{value:.2g}" for value in cells) + " |", flush=True)


if __name__ == "__main__":
    main()
