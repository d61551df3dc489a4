"""`scisci-gym demo`: a study with a fixed plan on data and a tiny model that it makes itself, resumable by stages."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ...datasets.atomic_files import write_json_atomically
from ...datasets.build import BuildOptions, NoRoomForSplit, build_dataset
from ...datasets.cli.build import build_synthetic
from ...datasets.errors import BadInput
from ...datasets.labels.eligibility import LabelRules
from ...datasets.openalex.snapshot import read_works
from ...datasets.store import load_card
from ...datasets.synthetic.corpus import SyntheticCorpus
from ...envs.disruption import DisruptionEnv
from ...evaluation.ask import Answer
from ...evaluation.baselines import simple_baselines
from ...evaluation.comparison import ArmDifference, arm_difference
from ...evaluation.learners import TFIDF
from ...evaluation.metrics import Scores
from ...evaluation.outcome import PolicyResult, score_answers
from ..kit.config import TINY_REPORT
from ..kit.engines import engine_kind
from ..kit.tiny_model import init_tiny_model
from .assessment import Assessment, assess_arms
from .demo_challenge import ChallengedPolicy, challenge_policies, model_made_meanwhile
from .plan import FORMAT, Arm, OneSeedPlan, tiny_rl, tiny_sft
from .runner import Runner, is_resumed

ENV_OPTIONS: dict[str, Any] = {"prompt": "short"}
# Real abstracts are three times as long as synthetic ones and have more words: a step takes longer, rounds are fewer.
SYNTHETIC_MODEL, REAL_MODEL = {"steps": 400}, {"steps": 400, "vocab_size": 3000, "max_rounds": 2}
# On the synthetic corpus the loss of SFT hardly falls after the second of eight epochs.
SYNTHETIC_SFT_EPOCHS, REAL_SFT_EPOCHS = 2, 8
# Where RL starts from, its steps, groups a step, learning rate and KL penalty. On the synthetic corpus RL finds
# everything by itself. A KL penalty towards its nearly uniform start keeps all labels in play; without it one of them
# vanished for good on one seed of seven. On real text, where the signal is weak, RL from the format alone collapses to
# one label: it starts from SFT, more slowly and with more groups a step.
SYNTHETIC_RL = {"start": "start", "steps": 48, "groups": 12, "rate": 2e-3, "kl": 0.1}
REAL_RL = {"start": "sft", "steps": 60, "groups": 32, "rate": 3e-4, "kl": 0.0}


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a demo. Two demos with the same settings on the same machine give the same results.

    `papers` is the size of the synthetic corpus, `works` a folder of real works in snapshot layout instead of it,
    `labels` the label scheme, and `window` the years after publication whose citations count. `rl_steps` and `groups`
    are those of the RL run, `pretraining_steps` those of a round of pre-training, `sft_epochs` passes over the training
    papers. None means what suits the corpus.
    """

    seed: int = 0
    papers: int = SyntheticCorpus.papers
    works: str | None = None
    labels: str | None = None
    window: int = 5
    rl_steps: int | None = None
    groups: int | None = None
    group_size: int = 8
    lora_rank: int = 16
    sft_epochs: int | None = None
    sft_rate: float = 2e-3
    pretraining_steps: int | None = None
    eval_every: int = 12

    @property
    def scheme(self) -> str:
        """Scheme of the labels."""
        return self.labels or ("quantile" if self.works else "threshold")

    @property
    def epochs(self) -> int:
        """Passes of SFT over the training papers."""
        return self.sft_epochs or (REAL_SFT_EPOCHS if self.works else SYNTHETIC_SFT_EPOCHS)

    def to_json(self) -> dict[str, Any]:
        """The settings, with those of SFT and RL that were chosen where none are given."""
        return {**asdict(self), "sft_epochs": self.epochs, "rl": self.rl}

    @property
    def rl(self) -> dict[str, Any]:
        """Where RL starts from (an arm of the demo), its steps, groups a step, learning rate and KL penalty."""
        suited = REAL_RL if self.works else SYNTHETIC_RL
        return {**suited, "steps": self.rl_steps or suited["steps"], "groups": self.groups or suited["groups"]}


def demo_plan(out: Path, settings: DemoSettings) -> OneSeedPlan:
    """The arms of the demo: the answer format alone, SFT on the labels, and RL from one of the two."""
    rl, rank = settings.rl, {"lora_rank": settings.lora_rank}
    rl_options = tiny_rl(
        rl["rate"],
        rl["groups"],
        rl["steps"],
        **rank,
        group_size=settings.group_size,
        kl_penalty_coef=rl["kl"],
        eval_every=settings.eval_every,
        save_every=settings.eval_every,
    )
    return OneSeedPlan(
        dataset=str(out / "data"),
        model_name=str(out / "model"),
        arms=(
            Arm("start", "start (answer format only)", "sft", None, {**FORMAT, **rank}),
            Arm("sft", "SFT on the labels", "sft", None, tiny_sft(settings.sft_rate, settings.epochs, **rank)),
            Arm("rl", f"RL from {'SFT' if rl['start'] == 'sft' else 'the start'}", "rl", rl["start"], rl_options),
        ),
        env=DisruptionEnv.env_id,
        env_options="prompt=short",
        seeds=(settings.seed,),
        flip_examples=0,
        validation_examples=256,
    )


@dataclass
class DemoResult:
    """Everything that the report shows and `results.json` holds. `challenged` is empty without the second act."""

    settings: DemoSettings
    card: dict[str, Any]
    model: dict[str, Any]
    baselines: dict[str, Scores]
    policies: list[PolicyResult]
    chosen_step: int
    differences: list[ArmDifference]
    seconds: dict[str, float]
    notes: list[str]
    challenged: list[ChallengedPolicy]

    @property
    def before_rl(self) -> PolicyResult:
        """The policy that RL started from."""
        return self.policies[1 if self.settings.rl["start"] == "sft" else 0]

    @property
    def after_rl(self) -> PolicyResult:
        """The policy that RL made."""
        return self.policies[2]

    def to_json(self) -> dict[str, Any]:
        """The result as plain values."""
        return {
            "settings": self.settings.to_json(),
            "dataset": {name: self.card[name] for name in ("content_hash", "labels", "split", "splits")},
            "ceiling": self.card.get("ceiling"),
            "model": self.model,
            "baselines": {name: scores.to_json() for name, scores in self.baselines.items()},
            "policies": [policy.to_json() for policy in self.policies],
            "differences": [difference.to_json() for difference in self.differences],
            "chosen_step": self.chosen_step,
            "seconds": self.seconds,
            "notes": self.notes,
            "challenged": [policy.to_json() for policy in self.challenged],
        }


class Demo:
    """The stages, in order. Each leaves its result in `out`; a second demo continues with what is there.

    `engine` is as in `open_engine`, with None for the local engine. With `challenge` there is a second act, on the
    synthetic corpus only: see `demo_challenge.py`.
    """

    def __init__(
        self,
        out: Path,
        settings: DemoSettings,
        console: Console,
        engine: str | None = None,
        challenge: bool = False,
    ):
        self.challenge = challenge and settings.works is None
        self.out, self.settings, self.console, self.engine = out, settings, console, engine or "local"
        self.data, self.model = out / "data", out / "model"
        self.plan = demo_plan(out, settings)
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []

    def run(self) -> DemoResult:
        """Run all stages.

        Raises
        ------
        BadInput
            If `out` holds a demo with other settings, or the works cannot be used.
        """
        if engine_kind(self.engine) == "hosted":
            raise BadInput(
                "the demo trains a tiny model made here, which hosted Tinker does not have; use --engine local"
            )
        settings, rl = self.settings, self.settings.rl
        resumed = is_resumed(self.out, "demo.json", asdict(settings), "--fresh to start over", besides=["data"])
        if resumed:
            self.console.print(f"continuing the demo in {self.out}")
        with self._stage("data", "dataset built"):
            card = self._dataset(resumed)
        write_json_atomically(self.out / "demo.json", asdict(settings))
        made_for = (self.out, settings.seed, settings.pretraining_steps)
        other = model_made_meanwhile(*made_for) if self.challenge else nullcontext()
        with self._stage("model", f"tiny model{'s' * self.challenge} pre-trained on unlabelled prompts"), other:
            model = self._tiny_model()
        with Runner(self.console, self.engine, announce=False) as runner:
            with self._stage("SFT", "supervised fine-tuning: on the answer format alone, and on the labels"):
                self._train(runner, "start", "SFT (start)")
                self._train(runner, "sft", "SFT (sft)")
            origin = "SFT" if rl["start"] == "sft" else "the answer format"
            with self._stage("RL", f"{rl['steps']} steps of RL from {origin}"):
                self._train(runner, "rl", "RL")
            with self._stage("evaluation", "policies evaluated on the test split, greedy and sampled"):
                runner.open(self.out / "checkpoints", self.plan.model_name)
                assessments = asyncio.run(assess_arms(self.plan, self.out, self.console, with_probabilities=False))
            challenged = []
            if self.challenge:
                with self._stage("challenge", "second act: a policy learned to be challenged"):
                    challenged = self._second_act(runner)
        with self._stage("baselines", "baselines fitted and evaluated"), self.console.status("TF-IDF"):
            answers = simple_baselines(str(self.data), settings.seed)
        result = self._result(card, model, assessments, answers, challenged)
        write_json_atomically(self.out / "results.json", result.to_json())
        return result

    def _result(
        self,
        card: dict[str, Any],
        model: dict[str, Any],
        assessments: Sequence[Assessment],
        baselines: Mapping[str, Sequence[Answer]],
        challenged: list[ChallengedPolicy],
    ) -> DemoResult:
        labels, seed, learned = DisruptionEnv.labels, self.settings.seed, assessments[-1]
        titles = [arm.title for arm in self.plan.arms]
        expected = [answer.expected for answer in learned.greedy]
        rivals = {titles[1]: assessments[1].greedy, TFIDF.name: baselines[TFIDF.name]}
        return DemoResult(
            self.settings,
            card,
            model,
            baselines={name: score_answers(each, labels, seed) for name, each in baselines.items()},
            policies=[
                PolicyResult(
                    title,
                    score_answers(each.greedy, labels, seed),
                    score_answers(each.sampled, labels, seed),
                    each.greedy,
                )
                for title, each in zip(titles, assessments, strict=True)
            ],
            chosen_step=learned.step,
            differences=[
                arm_difference(
                    ("RL", name), expected, [learned.predictions], [[each.predicted for each in rival]], labels
                )
                for name, rival in rivals.items()
            ],
            seconds=self.seconds,
            notes=self.notes,
            challenged=challenged,
        )

    def _second_act(self, runner: Runner) -> list[ChallengedPolicy]:
        settings = self.settings
        options = {"group_size": settings.group_size, "lora_rank": settings.lora_rank}
        if settings.groups is not None:
            options["groups_per_batch"] = settings.groups
        steps = (settings.pretraining_steps, settings.rl_steps)
        return challenge_policies(self.out, settings.seed, runner, self.console, steps, options)

    def _train(self, runner: Runner, name: str, title: str) -> None:
        arm = self.plan.arm(name)
        assert arm.recipe is not None
        runner.train(arm.recipe, self.plan.config(self.out, arm, self.settings.seed), title)

    @contextmanager
    def _stage(self, name: str, what: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - started, 1)
        self.console.print(f"[green]✓[/green] {what} [dim]({self.seconds[name]:.0f} s)[/dim]", highlight=False)

    def _dataset(self, resumed: bool) -> dict[str, Any]:
        settings = self.settings
        rules = LabelRules(scheme=settings.scheme, window=settings.window)
        if not resumed and settings.works is None:
            corpus = SyntheticCorpus(papers=settings.papers, seed=settings.seed)
            command = self._command("synthetic", "--papers", str(settings.papers), "--seed", str(settings.seed))
            build_synthetic(corpus, self.data, BuildOptions(rules, command=command), self.console.is_terminal)
        elif not resumed:
            self._real_dataset(rules)
        card = load_card(self.data)
        if card["split"]["kind"] == "publication":
            self.notes.append(
                f"These works leave no room for a split with closed label windows of {settings.window} years, so the "
                "split is by publication year alone: training labels use citations made after the first test papers "
                "appeared."
            )
        if settings.scheme == "quantile":
            self.notes.append(
                "Labels are tertiles of the CD index within field and year, not cuts at +-0.1: real papers are mostly "
                "neutral at +-0.1. Ask for the cuts with --labels threshold."
            )
        return card

    def _real_dataset(self, rules: LabelRules) -> None:
        """Build the dataset with closed label windows, or by publication year where these leave no room."""
        works, dropped = self._works()
        for split in ("closed", "publication"):
            command = self._command("snapshot", str(self.settings.works), "--split", split)
            try:
                build_dataset(works, dropped, self.data, BuildOptions(rules, split, command=command))
                return
            except NoRoomForSplit:
                if split == "publication":
                    raise

    def _command(self, *arguments: str) -> tuple[str, ...]:
        """The command that builds the dataset again."""
        rules = ("--labels", self.settings.scheme, "--window", str(self.settings.window))
        return ("scisci-gym", "build", *arguments, *rules, "--out", str(self.data))

    def _works(self) -> Any:
        folder = Path(self.settings.works) if self.settings.works else self.data / "source" / "works"
        return read_works(folder, progress=self.console.is_terminal)

    def _tiny_model(self) -> dict[str, Any]:
        report = self.model / TINY_REPORT
        if not report.is_file():
            sizes: dict[str, Any] = {**(REAL_MODEL if self.settings.works else SYNTHETIC_MODEL)}
            if self.settings.pretraining_steps is not None:
                sizes["steps"] = self.settings.pretraining_steps
            shared = {"options": ENV_OPTIONS, "seed": self.settings.seed, "progress": self.console.is_terminal}
            init_tiny_model(self.model, self._works()[0], self.data, **shared, **sizes)
        model = json.loads(report.read_text())
        if not model["reached"]:
            self.notes.append(
                f"Pre-training ended with a linear probe at {model['probe_scores'][-1]:.3f} on validation papers, "
                f"short of the {model['probe_target']:.3f} asked for: expect weak features."
            )
        return model
