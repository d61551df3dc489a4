"""The environments in Gymnasium: ``gymnasium.make("scisci/Disruption-v0")``. Texts go in, texts come out.

Needs ``pip install 'scisci-gym[gymnasium]'``. Importing `scisci_gym` registers the environments.
"""

from typing import Any

import gymnasium
import numpy as np
from tinker_cookbook.renderers import Message

from ..kit.base import SciSciEnv
from ..kit.episodes import run_sync
from ..registry import make
from .papers import examples_of, options_of


class AnyText(gymnasium.Space[str]):
    """Every string. `gymnasium.spaces.Text` needs a list of the characters that occur, and abstracts may hold any.
    `sample` draws a few ASCII letters."""

    def __init__(self, seed: int | np.random.Generator | None = None):
        super().__init__(shape=None, dtype=str, seed=seed)

    @property
    def is_np_flattenable(self) -> bool:
        return False

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        return "".join(chr(97 + letter) for letter in self.np_random.integers(26, size=8))

    def contains(self, x: Any) -> bool:
        return isinstance(x, str)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AnyText)

    def __repr__(self) -> str:
        return "AnyText()"


class SciSciGymnasiumEnv(gymnasium.Env[str, str]):
    """An environment of the suite as a Gymnasium environment.

    The dataset is a folder that `scisci-gym build` wrote; None: the environment variable `SCISCI_GYM_DATASET`, or else
    the nine built-in papers. Further `options` are those of the environment, such as ``prompt="short"``.

    `reset` draws a paper with the environment's own generator (``seed=``), or takes ``options={"index": 3}``. An
    observation is the text of the newest message; `info` has the whole conversation, and after the last step the
    metrics and the right answer.
    """

    metadata = {"render_modes": ["ansi"]}  # noqa: RUF012  (Gymnasium's own convention)

    def __init__(
        self,
        env_id: str,
        dataset: str | None = None,
        split: str = "train",
        render_mode: str | None = None,
        **options: Any,
    ):
        self.env_id, self.render_mode = env_id, render_mode
        self.examples = examples_of(env_id, dataset, split)
        self.env_options = options_of(env_id, dataset, options)
        self.observation_space, self.action_space = AnyText(), AnyText()
        self._env: SciSciEnv | None = None
        self._messages: list[Message] = []

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[str, dict[str, Any]]:
        super().reset(seed=seed)
        drawn = int(self.np_random.integers(len(self.examples)))
        index = (options or {}).get("index", drawn)
        self._env = make(self.env_id, *self.examples[index], **self.env_options)
        self._messages = run_sync(self._env.initial_observation())
        return self._text(), {"example_id": self._env.example_id, "messages": self._messages}

    def step(self, action: str) -> tuple[str, float, bool, bool, dict[str, Any]]:
        if self._env is None:
            raise gymnasium.error.ResetNeeded("call reset() before step()")
        result = run_sync(self._env.step(Message(role="assistant", content=action)))
        self._messages = result.next_messages
        info = {"example_id": self._env.example_id, "messages": self._messages, **result.metrics, **result.logs}
        if result.episode_done:
            self._env = None
        return self._text(), float(result.reward), result.episode_done, False, info

    def render(self) -> str:
        return "\n\n".join(f"{message['role']}: {message['content']}" for message in self._messages)

    def _text(self) -> str:
        return str(self._messages[-1]["content"]) if self._messages else ""
