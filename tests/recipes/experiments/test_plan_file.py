"""A plan file says which studies there are; what is wrong with it is named by file, table and key."""

from pathlib import Path

import chz
import pytest

from scisci_gym.datasets.errors import BadInput
from scisci_gym.recipes.experiments.plan import read_plans

ROOT = Path(__file__).resolve().parents[3]
PLAN = """
[all]
seeds = [5, 6]
metric = "mcc"

[arms.sft]
title = "SFT"
recipe = "sft"
options = { num_epochs = 2 }

[arms.sft_rl]
recipe = "rl"
start = "sft"

[[studies]]
name = "few"
dataset = "data"
model = "model"
train_papers = 64
options = ["sft.num_epochs=8"]

[[studies]]
name = "all"
dataset = "data"
model = "model"
seeds = [7]
train_papers = "all"
arms = ["sft"]
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "plan.toml"
    path.write_text(text)
    return path


def test_a_study_has_the_keys_of_all_studies_and_its_own(tmp_path: Path) -> None:
    few, everything = read_plans(write(tmp_path, PLAN), "validation").values()
    assert (few.seeds, everything.seeds) == ((5, 6), (7,))
    assert (few.metric, few.split, few.train_papers, everything.train_papers) == ("mcc", "validation", 64, None)
    assert [arm.name for arm in few.arms] == ["sft", "sft_rl"]
    assert [arm.name for arm in everything.arms] == ["sft"]


def test_options_and_training_papers_reach_the_recipes(tmp_path: Path) -> None:
    few, everything = read_plans(write(tmp_path, PLAN)).values()
    sft, rl = (chz.asdict(few.config(tmp_path, arm, 5)) for arm in few.arms)
    assert (sft["num_epochs"], sft["rows"], rl["rows"]) == (8, 64, 64)
    assert rl["load_checkpoint_path"] == str(tmp_path / "seed5" / "sft")
    plain = chz.asdict(everything.config(tmp_path, everything.arm("sft"), 7))
    assert (plain["num_epochs"], plain["rows"]) == (2, None)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[all]", "[all", r"plan\.toml: .*line 2"),
        ("[all]", "[al]", "the top: there is no key 'al'; did you mean all"),
        ("seeds = [5, 6]", "seeds = [5, 5]", r"\[all\]: seeds=\[5, 5\]; it has to be a list of different whole"),
        ("seeds = [5, 6]", "name = 'x'", r"\[all\]: there is no key 'name'"),
        ('"mcc"', '"f2"', "metric='f2'; it has to be one of macro_f1, mcc, accuracy"),
        ("num_epochs = 2", "num_epoch = 2", "arms.sft.options: sft has no option 'num_epoch'; did you mean num_epochs"),
        ('recipe = "rl"', 'recipe = "ppo"', "arms.sft_rl: recipe='ppo'; there are rl"),
        ('start = "sft"', 'start = "format"', "arms.sft_rl: start='format' is no trained arm above it; those are sft"),
        ('title = "SFT"', 'name = "SFT"', "arms.sft: there is no key 'name'; there are title, recipe, start, options"),
        ('name = "few"', 'name = "all"', "study 2: name='all'; it needs a name of its own"),
        ('name = "few"', "", "study 1: name=None"),
        ('dataset = "data"', "", "study 'few': it has no dataset"),
        ("train_papers = 64", "train_papers = 0", "study 'few': train_papers=0; it has to be a number of at least 1"),
        (
            "train_papers = 64",
            "train_paper = 64",
            "study 'few': there is no key 'train_paper'; did you mean train_pape",
        ),
        ("sft.num_epochs=8", "sft.epochs=8", "study 'few': 'sft.epochs=8': sft has no option 'epochs'"),
        ('arms = ["sft"]', 'arms = ["ppo"]', "study 'all': a study has no arm 'ppo'"),
        ('arms = ["sft"]', 'env = "rain-v0"', "study 'all': .*rain-v0"),
        ('arms = ["sft"]', 'baselines = ["oracle"]', "study 'all': baselines name 'oracle'; there are majority class"),
        ('arms = ["sft"]', 'comparisons = [["sft", "x"]]', "study 'all': comparisons name 'x'; there are sft, sft_rl"),
        ('arms = ["sft"]', 'primary = [["sft"]]', "primary=.*; it has to be a list of pairs"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert PLAN.count(old)
    with pytest.raises(BadInput, match=rf"plan\.toml.*{message}" if "plan" not in message else message):
        read_plans(write(tmp_path, PLAN.replace(old, new, 1)))


def test_a_plan_without_studies_or_arms_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no arms"):
        read_plans(write(tmp_path, ""))
    with pytest.raises(BadInput, match=r"no \[\[studies\]\]"):
        read_plans(write(tmp_path, PLAN[: PLAN.index("[[studies]]")]))
    with pytest.raises(FileNotFoundError, match=r"docs/study-plan\.toml is an example"):
        read_plans(tmp_path / "none.toml")


def test_the_documented_plan_gives_all_arms_the_same_papers_and_as_many_checkpoints_to_choose_from() -> None:
    pilot = read_plans(ROOT / "docs" / "study-pilot.toml", "validation")["synthetic-64"]
    plan = read_plans(ROOT / "docs" / "study-plan.toml")["synthetic-64"]
    assert not {*plan.seeds} & {*pilot.seeds}
    assert len(plan.seeds) >= 5
    assert plan.primary == (("sft_rl", "sft"), ("sft_rl", "sft_more"))
    for arm in plan.trained:
        cfg = chz.asdict(plan.config(Path("runs"), arm, plan.seeds[0]))
        if arm.name == "format":
            assert cfg["answers"] == "random", "no label is read"
            continue
        updates = cfg["max_steps"] if arm.recipe == "rl" else cfg["num_epochs"] * (64 // 32)
        assert (cfg["rows"], updates // cfg["save_every"]) == (64, 4), arm.name
        assert arm.start == {"sft": None, "rl": "format"}.get(arm.name, "sft")
