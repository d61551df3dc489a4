"""What a demo is made of: its settings, and the arms that it trains in its two acts."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...datasets.synthetic.corpus import SyntheticCorpus
from ...envs.adversarial import AdversarialDisruptionEnv
from ...envs.disruption import DisruptionEnv
from .plan import FORMAT, TINY, Arm, OneSeedPlan, tiny_rl, tiny_sft

# On the synthetic corpus the loss of SFT hardly falls after the second of eight epochs.
SYNTHETIC_SFT_EPOCHS, REAL_SFT_EPOCHS = 2, 8
# Where RL starts from, its steps, groups a step, learning rate and KL penalty. On the synthetic corpus RL finds
# everything by itself. A KL penalty towards its nearly uniform start keeps all labels in play; without it one of them
# vanished for good on one seed of seven. On real text, where the signal is weak, RL from the format alone collapses to
# one label: it starts from SFT, more slowly and with more groups a step.
SYNTHETIC_RL = {"start": "start", "steps": 48, "groups": 12, "rate": 2e-3, "kl": 0.1}
REAL_RL = {"start": "sft", "steps": 60, "groups": 32, "rate": 3e-4, "kl": 0.0}
# A language model of some hundred million parameters costs a thousand times as much per token: fewer of them, and
# smaller steps. It writes an answer in up to 24 tokens.
LANGUAGE_MODEL_RL = {"start": "sft", "steps": 20, "groups": 8, "rate": 1e-4, "kl": 0.0}
LANGUAGE_MODEL_SFT = {"rows": 1600, "learning_rate": 2e-4, "num_epochs": 1}
LANGUAGE_MODEL: dict[str, Any] = {"max_tokens": 24}
# The second act: folders of its model, of the answers of that as it is, and of its run of RL, in that of the demo.
CHALLENGED_MODEL, CHALLENGED_START, CHALLENGED_RL = "challenged-model", "challenged-start", "challenged-rl"
# The most steps of RL, its groups a step (as many papers of each of the three labels), and papers that are challenged.
CHALLENGED_STEPS, CHALLENGED_GROUPS, CHALLENGED_EXAMPLES = 36, 12, 200


@dataclass(frozen=True)
class DemoSettings:
    """Settings of a demo. Two demos with the same settings on the same machine give the same results.

    `papers` is the size of the synthetic corpus, `works` a folder of real works in snapshot layout instead of it,
    `model` a language model instead of the tiny one (a folder, or a name that `scisci-gym engine get-model` takes),
    `labels` the label scheme, and `window` the years after publication whose citations count. `rl_steps` and `groups`
    are those of the RL run, `pretraining_steps` those of a round of pre-training, `sft_epochs` passes over the training
    papers. None means what suits the corpus.
    """

    seed: int = 0
    papers: int = SyntheticCorpus.papers
    works: str | None = None
    model: str | None = None
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
        if self.model is not None:
            return self.sft_epochs or LANGUAGE_MODEL_SFT["num_epochs"]
        return self.sft_epochs or (REAL_SFT_EPOCHS if self.works else SYNTHETIC_SFT_EPOCHS)

    def to_json(self) -> dict[str, Any]:
        """The settings, with those of SFT and RL that were chosen where none are given."""
        return {**asdict(self), "sft_epochs": self.epochs, "rl": self.rl}

    @property
    def rl(self) -> dict[str, Any]:
        """Where RL starts from (an arm of the demo), its steps, groups a step, learning rate and KL penalty."""
        suited = LANGUAGE_MODEL_RL if self.model is not None else REAL_RL if self.works else SYNTHETIC_RL
        return {**suited, "steps": self.rl_steps or suited["steps"], "groups": self.groups or suited["groups"]}


def model_folder(out: Path, settings: DemoSettings) -> Path:
    """Where the model of a demo is: the folder that was given, or else one in `out`."""
    given = settings.model is not None and Path(settings.model).is_dir()
    return Path(str(settings.model)).absolute() if given else out / "model"


def demo_plan(out: Path, settings: DemoSettings) -> OneSeedPlan:
    """The arms of the demo: the answer format alone, SFT on the labels, and RL from one of the two."""
    rl, rank = settings.rl, {"lora_rank": settings.lora_rank}
    sft = tiny_sft(settings.sft_rate, settings.epochs)
    if settings.model is not None:
        rank |= LANGUAGE_MODEL
        sft |= {**LANGUAGE_MODEL_SFT, "num_epochs": settings.epochs}
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
        model_name=str(model_folder(out, settings)),
        arms=(
            Arm("start", "start (answer format only)", "sft", None, {**FORMAT, **rank}),
            Arm("sft", "SFT on the labels", "sft", None, {**sft, **rank}),
            Arm("rl", f"RL from {'SFT' if rl['start'] == 'sft' else 'the start'}", "rl", rl["start"], rl_options),
        ),
        env=DisruptionEnv.env_id,
        env_options="prompt=short",
        seeds=(settings.seed,),
        flip_examples=0,
        validation_examples=256,
    )


def challenge_plan(out: Path, settings: DemoSettings) -> OneSeedPlan:
    """The policies of the second act: a tiny model that knows the answer format, and what RL makes of it.

    RL has the defaults of its recipe, but for these options and those that the settings give.
    """
    options = {
        **TINY,
        "groups_per_batch": CHALLENGED_GROUPS if settings.groups is None else settings.groups,
        "max_steps": min(settings.rl_steps or CHALLENGED_STEPS, CHALLENGED_STEPS),
        "eval_every": 12,
        "save_every": 12,
        "group_size": settings.group_size,
        "lora_rank": settings.lora_rank,
    }
    return OneSeedPlan(
        dataset=str(out / "data"),
        model_name=str(out / CHALLENGED_MODEL),
        arms=(Arm(CHALLENGED_START, "before RL"), Arm(CHALLENGED_RL, "after RL", "rl", None, options)),
        env=AdversarialDisruptionEnv.env_id,
        env_options="prompt=short",
        seeds=(settings.seed,),
        flip_examples=CHALLENGED_EXAMPLES,
        max_examples=CHALLENGED_EXAMPLES,
        validation_examples=128,
    )
