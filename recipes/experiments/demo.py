"""`scisci-gym demo`: a study with a fixed plan on data and a tiny model that it makes itself, resumable by stages."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
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
from ...engine.compute.loading import parameters_in
from ...engine.pretrained.get_model import get_model
from ...envs.adversarial import AdversarialDisruptionEnv
from ...envs.disruption import DisruptionEnv
from ...evaluation.ask import Answer
from ...evaluation.baselines import simple_baselines
from ...evaluation.comparison import ArmDifference, arm_difference
from ...evaluation.learned_baselines import TFIDF
from ...evaluation.metrics import Scores
from ...evaluation.outcome import PolicyResult, score_answers
from ...evaluation.probes.flips import READER
from ...evaluation.records import plain
from ..kit.config import TINY_REPORT, tiny_notes
from ..kit.engines import engine_kind
from ..kit.tiny_model import ensure_tiny_model, init_tiny_model
from .assessment import Assessment, assess_arms
from .demo_plan import CHALLENGED_MODEL, CHALLENGED_RL, DemoSettings, challenge_plan, demo_plan, model_folder
from .plan import OneSeedPlan
from .runner import Runner, is_resumed, require_same_data

ENV_OPTIONS: dict[str, Any] = {"prompt": "short"}
# Real abstracts are three times as long as synthetic ones and have more words: a step takes longer, rounds are fewer.
SYNTHETIC_MODEL, REAL_MODEL = {"steps": 400}, {"steps": 400, "vocab_size": 3000, "max_rounds": 2}
CHALLENGED_MODEL_STEPS = 300


@dataclass(frozen=True)
class ChallengedPolicy:
    """What happened to a policy that was challenged on test papers: the updates of its checkpoint, the mean reward of
    its greedy episodes, in [-1, 1.5], and its `flip_report`."""

    title: str
    step: int
    reward: float
    flips: dict[str, Any]

    def row(self, kind: str) -> dict[str, Any]:
        """The result of `flips` for a kind of challenge; empty if it did not occur."""
        return self.flips["challengers"][READER]["rows"].get(kind, {})


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
            "challenged": [asdict(policy) for policy in self.challenged],
        }


class Demo:
    """The stages, in order. Each leaves its result in `out`; a second demo continues with what is there.

    `engine` is as in `open_engine`, with None for the local engine. With `challenge` there is a second act, on the
    synthetic corpus only: another tiny model learns to be challenged, and its flips are counted before and after that.
    """

    def __init__(
        self,
        out: Path,
        settings: DemoSettings,
        console: Console,
        engine: str | None = None,
        challenge: bool = False,
    ):
        self.challenge = challenge and settings.works is None and settings.model is None
        self.out, self.settings, self.console, self.engine = out, settings, console, engine or "local"
        self.data, self.model = out / "data", model_folder(out, settings)
        self.plan = demo_plan(out, settings)
        self.seconds: dict[str, float] = {}
        self.notes: list[str] = []

    def run(self) -> DemoResult:
        """Run all stages.

        Raises
        ------
        BadInput
            If `out` holds a demo with other settings, its dataset has another content than when it began, or the works
            cannot be used.
        """
        if engine_kind(self.engine) == "hosted":
            raise BadInput(
                "the demo trains a model of this machine, which hosted Tinker does not have; use --engine local"
            )
        settings, rl = self.settings, self.settings.rl
        resumed = is_resumed(self.out, "demo.json", asdict(settings), "--fresh to start over", besides=["data"])
        if resumed:
            self.console.print(f"continuing the demo in {self.out}")
        with self._stage("data", "dataset built"):
            card = self._dataset(resumed)
        runs = [self.out / arm.name for arm in self.plan.trained]
        content_hash = require_same_data(self.out, self.data, "give --fresh to start over", "demo.json", runs)
        write_json_atomically(self.out / "demo.json", {**asdict(settings), "content_hash": content_hash})
        other = _challenged_model_meanwhile(self.out, settings) if self.challenge else nullcontext()
        made = f"tiny model{'s' * self.challenge} pre-trained on unlabelled prompts"
        with self._stage("model", made if settings.model is None else f"{settings.model} is in {self.model}"), other:
            model = self._tiny_model() if settings.model is None else self._language_model(settings.model)
        with Runner(self.console, self.engine, announce=False) as runner:
            with self._stage("SFT", "supervised fine-tuning: on the answer format alone, and on the labels"):
                self._train(runner, self.plan, "start", "SFT (start)")
                self._train(runner, self.plan, "sft", "SFT (sft)")
            origin = "SFT" if rl["start"] == "sft" else "the answer format"
            with self._stage("RL", f"{rl['steps']} steps of RL from {origin}"):
                self._train(runner, self.plan, "rl", "RL")
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
        plan = challenge_plan(self.out, self.settings)
        _make_challenged_model(self.out, self.settings)
        self._train(runner, plan, CHALLENGED_RL, "RL under challenge")
        runner.open(self.out / "checkpoints", plan.model_name)
        assessed = assess_arms(plan, self.out, self.console, with_probabilities=False, sampled=False)
        policies = []
        for each in asyncio.run(assessed):
            assert each.flips is not None
            reward = fmean(answer.reward for answer in each.greedy)
            policies.append(ChallengedPolicy(plan.arm(each.arm).title, each.step, reward, plain(each.flips)))
        return policies

    def _train(self, runner: Runner, plan: OneSeedPlan, name: str, title: str) -> None:
        arm = plan.arm(name)
        assert arm.recipe is not None
        runner.train(arm.recipe, plan.config(self.out, arm, self.settings.seed), title)

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

    def _language_model(self, name: str) -> dict[str, Any]:
        if not (self.model / "config.json").is_file():
            get_model(name, self.model)
        return {"name": name, "parameters": parameters_in(self.model)}

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


def _make_challenged_model(out: Path, settings: DemoSettings) -> None:
    """Make the tiny model of the second act, unless it is there."""
    ensure_tiny_model(
        out / CHALLENGED_MODEL,
        out / "data",
        options=ENV_OPTIONS,
        env_id=AdversarialDisruptionEnv.env_id,
        seed=settings.seed,
        progress=False,
        steps=settings.pretraining_steps or CHALLENGED_MODEL_STEPS,
    )


@contextmanager
def _challenged_model_meanwhile(out: Path, settings: DemoSettings) -> Iterator[None]:
    """Make that model in another process while the block runs: pre-training keeps one core busy, and most machines have
    two. An error of it is raised when the block has ended."""
    if tiny_notes(str(out / CHALLENGED_MODEL)) is not None:
        yield
        return
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        made = pool.submit(_make_challenged_model, out, settings)
        yield
        made.result()
