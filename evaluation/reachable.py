"""What can be earned in an environment on a synthetic dataset: by the best reader, by one answer to everything, by
texts that answer nothing."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..datasets.paper import Paper
from ..datasets.synthetic.bayes import Styles, styles_of
from ..envs.checking.degenerate import NOT_ANSWERS, pad
from ..envs.kit.answers import format_number, format_probabilities
from ..envs.kit.base import Example, SciSciEnv
from ..envs.kit.episodes import play_episode, run_sync
from ..envs.kit.single_turn import SingleTurnEnv
from ..envs.kit.two_turn import TwoTurnEnv
from ..rewards import MAX_REASONING

GRID = 10
"""Numbers and probabilities among `valid_answers` are multiples of 1 / GRID."""
SUBJECTS = {"cd_index": "disruption", "novelty_score": "novelty", "citation_percentile": "hit"}
PANEL_EXAMPLES = 8


def subjects_of(env_class: type[SciSciEnv]) -> tuple[str, ...]:
    """What a synthetic abstract has to tell for an environment to be learnable: some of disruption, novelty, hit."""
    return tuple(SUBJECTS[name] for name in env_class.score_fields if name in SUBJECTS)


def valid_answers(env_class: type[SciSciEnv]) -> list[str]:
    """Valid answers of every kind that an environment accepts, for a policy to draw from without looking.

    Examples
    --------
    >>> from scisci_gym import spec
    >>> valid_answers(spec("novelty-v0"))[0], valid_answers(spec("cd-forecast-v0"))[3]
    ('<answer>novel</answer>', '<answer>-0.7</answer>')
    >>> valid_answers(spec("novelty-forecast-v0"))[3]
    '<answer>novel: 0.8, conventional: 0.1, balanced: 0.1</answer>'
    """
    labels = env_class.labels
    if env_class.asks_for == "number":
        return [format_number(step / GRID) for step in range(-GRID, GRID + 1)]
    if env_class.asks_for == "probabilities":
        # Forecasts that give one label the largest share and the others equal ones.
        count, forecasts = len(labels), []
        for rest in range(GRID // count + 1):
            for favoured in range(count):
                shares = [rest / GRID] * count
                shares[favoured] = (GRID - (count - 1) * rest) / GRID
                forecasts.append(format_probabilities(shares, labels))
        return list(dict.fromkeys(forecasts))
    return [env_class.answer_for(label) for label in labels]


@dataclass(frozen=True)
class Reachable:
    """Mean rewards on a split.

    The best reader sees which styles the wording has, and gives the answer that earned most on the training papers of
    these styles: `best` is its reward with perfect quotes where quotes are paid, and `best_without_quotes` if it writes
    answers alone, which is the most that a tiny policy can reach. `chance` is that of the best single answer to
    everything, and `advantage` that of the best reader without quotes over it, in standard errors of the difference
    over examples.

    `for_reasons` is the part of the range that is paid for reasons, beside a right answer.

    `constants` has every one of `valid_answers`, given to everything, `oracle` is of the gold answers and `no_op` of an
    empty text. `padded` is what filler before an answer adds to its reward: the largest difference over the valid
    answers. `degenerate` has, by name, the most that each text that is no answer earned on any of 8 examples.
    """

    reward_range: tuple[float, float]
    for_reasons: float
    best: float
    best_without_quotes: float
    chance: float
    advantage: float
    oracle: float
    no_op: float
    constants: dict[str, float]
    padded: float
    degenerate: dict[str, float]


def reachable(
    env_class: type[SciSciEnv],
    train: Sequence[Paper],
    papers: Sequence[Paper],
    options: dict[str, Any],
    tells: Sequence[str],
) -> Reachable:
    """Play the reader, the constants and the texts that are no answers.

    The reader learns from `train`, and everything is scored on `papers`. `options` are those of the environment, and
    `tells` is what the wording tells; see `SyntheticCorpus`.
    """
    examples = env_class.benchmark_examples(papers)
    table = best_answers(env_class, env_class.examples(train), options, tells)
    answers = valid_answers(env_class)

    def play(said: Callable[[Example], str], chosen: Sequence[Example], quoting: bool = False) -> np.ndarray:
        return run_sync(_rewards([(env_class(*example, **options), said(example)) for example in chosen], quoting))

    rewards = {answer: play(lambda _, answer=answer: answer, examples) for answer in answers}
    best_constant = max(answers, key=lambda answer: rewards[answer].mean())

    def read(example: Example) -> str:
        return table.get(styles_of(example, tells), best_constant)

    reader = play(read, examples)
    gain = reader - rewards[best_constant]
    error = gain.std(ddof=1) / np.sqrt(gain.size)
    few = examples[:PANEL_EXAMPLES]
    shown = {
        example: str(run_sync(env_class(*example, **options).initial_observation())[-1]["content"]) for example in few
    }
    degenerate = {
        name: float(play(lambda example, write=write: write(env_class, shown[example]), few).max())
        for name, write in NOT_ANSWERS.items()
    }
    padded = max(
        float((play(lambda _, answer=answer: pad(answer), few) - rewards[answer][: len(few)]).max())
        for answer in answers
    )
    return Reachable(
        reward_range=env_class(*examples[0], **options).reward_range,
        for_reasons=MAX_REASONING if issubclass(env_class, TwoTurnEnv) else 0.0,
        best=float((play(read, examples, quoting=True) if env_class.turns > 1 else reader).mean()),
        best_without_quotes=float(reader.mean()),
        chance=float(rewards[best_constant].mean()),
        advantage=float(gain.mean() / error) if error else 0.0,
        oracle=float(play(lambda example: env_class(*example, **options).gold_answer(), examples).mean()),
        no_op=float(play(lambda _: "", few).mean()),
        constants={answer: float(rewards[answer].mean()) for answer in answers},
        padded=padded,
        degenerate=degenerate,
    )


def best_answers(
    env_class: type[SciSciEnv], examples: Sequence[Example], options: dict[str, Any], tells: Sequence[str]
) -> dict[Styles, str]:
    """For all styles that occur: the answer with the highest mean reward on the examples that have them.

    Candidates are the `valid_answers`, and for forecasts what occurred: the shares of the labels, or the median.
    """
    by_styles: defaultdict[Styles, list[SciSciEnv]] = defaultdict(list)
    question = getattr(env_class, "question_env", env_class)
    supported = {name: value for name, value in options.items() if name in question.option_names()}
    for example in examples:
        by_styles[styles_of(example, tells)].append(question(*example, **supported))
    return {styles: _best_answer(envs) for styles, envs in by_styles.items()}


def _best_answer(envs: Sequence[SciSciEnv]) -> str:
    env_class = type(envs[0])
    candidates = valid_answers(env_class)
    if env_class.asks_for == "number":
        candidates.append(format_number(float(np.median([float(env.truth) for env in envs]))))
    elif env_class.asks_for == "probabilities":
        gold = [env.gold_label for env in envs]
        shares = [gold.count(label) / len(gold) for label in env_class.labels]
        candidates.append(format_probabilities(shares, env_class.labels))

    def earned(answer: str) -> float:
        rewards = []
        for env in envs:
            assert isinstance(env, SingleTurnEnv)
            rewards.append(env.grade(answer).reward.total)
        return float(np.mean(rewards))

    return max(candidates, key=earned)


async def _rewards(episodes: Sequence[tuple[SciSciEnv, str]], quoting: bool) -> np.ndarray:
    """Rewards of episodes in which the agent writes the same in every turn, after perfect quotes if `quoting`."""
    rewards = []
    for env, text in episodes:
        if quoting:
            text = env.gold_answer().replace(env.answer_for(env.gold_label), text)
        rewards.append((await play_episode(env, text)).reward)
    return np.array(rewards)
