"""The integrations with other toolkits, each tested where its package is installed; the package needs none of them."""

import importlib
import importlib.util
import json
import sys
import threading
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scisci_gym import Paper, make, spec, specs
from scisci_gym.datasets.store import save_dataset
from scisci_gym.envs.integrations.papers import papers_of
from scisci_gym.envs.integrations.registration import gymnasium_name, register_envs
from scisci_gym.envs.kit.episodes import play_episode, run_sync
from scisci_gym.envs.kit.samples import sample_papers
from scisci_gym.envs.opponents.challengers import CompleterChallenger
from scisci_gym.envs.opponents.models import LiteLLMCompleter

RIGHT = "<answer>disruptive</answer>"


def needs(package: str):
    there = importlib.util.find_spec(package) is not None
    return pytest.mark.skipif(not there, reason=f"{package} is not installed: pip install 'scisci-gym[{package}]'")


def test_without_a_dataset_integrations_show_the_built_in_papers(monkeypatch):
    monkeypatch.delenv("SCISCI_GYM_DATASET", raising=False)
    assert len(papers_of(None, "train")) == 9
    with pytest.raises(FileNotFoundError, match="no dataset split at"):
        papers_of("/nowhere", "train")


@needs("gymnasium")
class TestGymnasium:
    @pytest.fixture(autouse=True)
    def _registered(self, monkeypatch):
        monkeypatch.delenv("SCISCI_GYM_DATASET", raising=False)
        register_envs()
        register_envs()

    @pytest.mark.parametrize("env_id", [env_class.env_id for env_class in specs()])
    def test_its_own_check_passes_without_a_warning(self, env_id):
        import gymnasium
        from gymnasium.utils.env_checker import check_env

        env = gymnasium.make(f"scisci/{gymnasium_name(env_id)}")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_env(env.unwrapped, skip_render_check=True)

    def test_an_episode(self):
        import gymnasium

        env = gymnasium.make("scisci/Disruption-v0", prompt="short", render_mode="ansi")
        seen, info = env.reset(options={"index": 0})
        assert seen.startswith("<paper>")
        assert info["example_id"] == "disruption-v0:W9000000001"
        assert str(env.render()).startswith("user: <paper>")
        _, reward, terminated, truncated, info = env.step(RIGHT)
        assert (reward, terminated, truncated) == (1.0, True, False)
        assert info["expected"] == info["predicted"] == "disruptive"
        with pytest.raises(gymnasium.error.ResetNeeded):
            env.step(RIGHT)

    def test_two_turns(self):
        import gymnasium

        env = gymnasium.make("scisci/DisruptionAdversarial-v0", control_rate=1.0)
        env.reset(options={"index": 0})
        seen, reward, terminated, _, _ = env.step(RIGHT)
        assert (seen[:13], reward, terminated) == ("Are you sure?", 0.0, False)
        assert env.step(RIGHT)[1:3] == (1.2, True)

    def test_a_dataset_gives_the_prior_as_in_training(self, tmp_path):
        import gymnasium

        train = [paper for paper in sample_papers() if paper.disruption_label == "neutral"]
        save_dataset(tmp_path, {"train": train, "validation": [], "test": sample_papers()})
        env = gymnasium.make("scisci/DisruptionForecast-v1", dataset=str(tmp_path), split="test").unwrapped
        expected = spec("disruption-forecast-v1").training_options(str(tmp_path))["prior"]
        assert expected[2] > 0.5
        env.reset(options={"index": 0})
        assert env.step("no answer")[1] == pytest.approx(1 - 2 / (1 - sum(share**2 for share in expected)))

    def test_a_seed_chooses_the_paper(self):
        import gymnasium

        env = gymnasium.make("scisci/Disruption-v0")
        assert env.reset(seed=5)[0] == env.reset(seed=5)[0]
        assert len({env.reset(seed=seed)[0] for seed in range(40)}) == 9


class FakeOpenAI:
    """An OpenAI-compatible endpoint on this machine that always says the same."""

    def __init__(self):
        self.reply, self.finish_reason, self.asked = RIGHT, "stop", []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.asked.append(body["messages"])
                message = {"role": "assistant", "content": outer.reply}
                choice = {"index": 0, "finish_reason": outer.finish_reason, "message": message}
                usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
                answer = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
                data = json.dumps({**answer, "usage": usage}).encode()
                self.send_response(200)
                self.send_header("content-type", "application/json")
                self.send_header("content-length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format, *args):
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def endpoint():
    fake = FakeOpenAI()
    yield fake
    fake.server.shutdown()
    fake.server.server_close()


def has_verifiers() -> bool:
    if importlib.util.find_spec("verifiers") is None:
        return False
    return hasattr(importlib.import_module("verifiers"), "MultiTurnEnv")


@pytest.mark.skipif(not has_verifiers(), reason="verifiers 0.1 is not installed: pip install 'verifiers>=0.1.9,<0.2'")
@pytest.mark.parametrize(
    ("task", "finish_reason", "rewards"),
    [
        ("disruption-v0", "stop", [1.0, -1.0, -1.0]),
        ("disruption-v0", "length", [-1.0, -1.0, -1.0]),
        ("disruption-adversarial-v0", "stop", [1.2, -1.0, -1.0]),
        ("disruption-adversarial-v0", "length", [-1.0, -1.0, -1.0]),
    ],
)
def test_verifiers_plays_it(endpoint, monkeypatch, task, finish_reason, rewards):
    import verifiers
    from verifiers.types import ClientConfig

    monkeypatch.setenv("FAKE_KEY", "none")
    endpoint.finish_reason = finish_reason
    env = verifiers.load_environment("scisci_gym.envs.integrations.verifiers", task=task)
    client = ClientConfig(api_base_url=endpoint.url, api_key_var="FAKE_KEY")
    out = env.evaluate_sync(client=client, model="m", num_examples=3, max_concurrent=1)["outputs"]
    assert [one["reward"] for one in sorted(out, key=lambda one: one["example_id"])] == pytest.approx(rewards)


PAPER = Paper(openalex_id="W1", title="On ice", abstract="Water flows uphill.", cd_index=0.4)


@needs("litellm")
def test_any_openai_compatible_endpoint_can_be_the_challenger(endpoint, monkeypatch):
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    endpoint.reply = "Look again. </challenge>"
    challenger = CompleterChallenger(LiteLLMCompleter("openai/m", {"api_base": endpoint.url, "api_key": "none"}))
    env = make("disruption-adversarial-v0", PAPER, challenger=challenger, control_rate=0.0)
    episode = run_sync(play_episode(env, lambda messages: RIGHT))
    assert "Look again. ‹/challenge>" in episode.observations[1][-1]["content"]
    assert "On ice" in endpoint.asked[0][0]["content"]
    assert episode.reward == 1.2


def test_without_litellm_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "litellm", None)
    with pytest.raises(ImportError, match=r"pip install 'scisci-gym\[litellm\]'"):
        make("disruption-adversarial-v0", PAPER, challenger="litellm:openai/m")
