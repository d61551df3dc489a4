"""Policies that are functions from prompt to text, behind a sampling client, and one token for every byte."""

from types import SimpleNamespace

import pytest
import tinker
from tinker_cookbook.renderers.base import ParseTermination

from scisci_gym.datasets.build import BuildOptions
from scisci_gym.datasets.cli.build import build_synthetic
from scisci_gym.datasets.labels.eligibility import LabelRules
from scisci_gym.datasets.store import save_dataset
from scisci_gym.datasets.synthetic.corpus import SyntheticCorpus
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.evaluation import examination, learned_baselines
from scisci_gym.evaluation.ask import Task
from scisci_gym.evaluation.examination import Examination


class ByteTokenizer:
    def decode(self, tokens, **_):
        return bytes(tokens).decode()


class ByteRenderer:
    """Messages one below the other."""

    tokenizer = ByteTokenizer()

    def get_stop_sequences(self):
        return ["\n\n"]

    def build_generation_prompt(self, messages):
        return tinker.ModelInput.from_ints(list("\n".join(str(m["content"]) for m in messages).encode()))

    def parse_response(self, tokens):
        return {"role": "assistant", "content": bytes(tokens).decode()}, ParseTermination.STOP_SEQUENCE


class ScriptedClient:
    """A sampling client that answers with `write(prompt)`; None is an answer that was cut off."""

    def __init__(self, write):
        self.write, self.prompts = write, []

    async def sample_async(self, prompt, num_samples, sampling_params, **_):
        shown = bytes(prompt.to_ints()).decode()
        self.prompts.append(shown)
        text = self.write(shown)
        tokens = list(("cut" if text is None else text).encode())
        reason = "length" if text is None else "stop"
        sequence = SimpleNamespace(sequence_id="1", stop_reason=reason, tokens=tokens, logprobs=[0.0] * len(tokens))
        return SimpleNamespace(sequences=[sequence], prompt_cache_hit_tokens=0)

    # Its name since cookbook 0.6.
    sample = sample_async


@pytest.fixture
def scripted():
    return ScriptedClient


@pytest.fixture
def byte_renderer():
    return ByteRenderer()


@pytest.fixture
def examine(tmp_path, monkeypatch):
    """(policy, environment, papers, options) -> `Examination` over a dataset whose splits all hold the papers."""
    monkeypatch.setattr(examination, "renderer_of", lambda *names: ByteRenderer())

    def build(write, env="disruption-v0", papers=None, train=None, **options):
        papers = papers or sample_papers()
        folder = tmp_path / "data"
        if not folder.exists():
            save_dataset(folder, {"train": train or papers, "validation": papers, "test": papers})
        task = Task(env, options, str(folder), "no-model", "no-renderer", max_tokens=64)
        return Examination(task, ScriptedClient(write), tmp_path / "answers")

    return build


@pytest.fixture(scope="session")
def small_dataset(tmp_path_factory):
    """A built dataset with some hundred labelled papers."""
    out = tmp_path_factory.mktemp("data")
    build_synthetic(SyntheticCorpus(papers=3000, seed=7), out, BuildOptions(LabelRules()), progress=False)
    return out


@pytest.fixture
def quick(monkeypatch):
    """Few and small candidates for the learned baselines, few resamples: for tests of what comes out, not how good."""
    monkeypatch.setattr(learned_baselines, "STRENGTHS", (0.3,))
    monkeypatch.setattr(learned_baselines, "RATES", (0.1,))
    monkeypatch.setattr(learned_baselines, "ROUNDS", 5)
    monkeypatch.setattr("scisci_gym.evaluation.bootstrap.RESAMPLES", 100)
    learned_baselines._candidates.cache_clear()
