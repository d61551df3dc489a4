"""The `scisci-gym` command. What a command needs is imported when it is called."""

from .lazy_commands import LazyCommand, lazy_group

DATA, ENVIRONMENTS, TRAINING = "Data", "Environments", "Training"
RECIPE_ARGUMENTS = {"allow_extra_args": True, "ignore_unknown_options": True}

COMMANDS = {
    "build": LazyCommand("datasets.cli.build:app", "Build a labelled, time-split dataset out of works.", DATA),
    "data": LazyCommand("datasets.cli.data:app", "Check a built dataset.", DATA),
    "labels": LazyCommand("datasets.cli.labels:labels", "Compute every label of a saved citation graph.", DATA),
    "list": LazyCommand("envs.cli:list_environments", "List the environments.", ENVIRONMENTS),
    "show": LazyCommand(
        "envs.cli:show", "Show the card of an environment, how common its labels are, and an example.", ENVIRONMENTS
    ),
    "play": LazyCommand("envs.cli:play", "Answer as the agent.", ENVIRONMENTS),
    "check": LazyCommand("envs.cli:check", "Check that an environment is fit to train on.", ENVIRONMENTS),
    "train": LazyCommand(
        "recipes.cli:train", "Train a policy. Options of the recipe follow as name=value.", TRAINING, RECIPE_ARGUMENTS
    ),
    "sweep": LazyCommand(
        "recipes.cli_experiments:sweep",
        "Run a recipe over a grid of options: group_size=4,8,16 learning_rate=1e-3,2e-3 seed=0,1,2.",
        TRAINING,
        RECIPE_ARGUMENTS,
    ),
    "study": LazyCommand(
        "recipes.cli_experiments:study",
        "What does RL buy over SFT? Train base, SFT, RL, SFT then RL, and DPO on the same splits, and compare them.",
        TRAINING,
        RECIPE_ARGUMENTS,
    ),
    "eval": LazyCommand(
        "recipes.experiments.eval_cli:evaluate",
        "Score a run's best checkpoint on papers it has not seen, or everything on all environments with --all.",
        TRAINING,
    ),
    "demo": LazyCommand(
        "recipes.cli:demo", "Data, model, SFT, RL, evaluation and report, on two cores in a few minutes.", TRAINING
    ),
    "watch": LazyCommand(
        "recipes.reporting.cli:watch",
        "Watch a run: reward, KL, entropy, groups without signal, truncations, speed and alarms.",
        TRAINING,
    ),
    "report": LazyCommand(
        "recipes.reporting.cli:report",
        "Write an HTML page about one or several runs: curves, scores, options that differ, transcripts, alarms.",
        TRAINING,
    ),
    "engine": LazyCommand(
        "cli:engine", "A Tinker-compatible engine on this machine, and tiny models to run on it.", TRAINING
    ),
}

ENGINE_COMMANDS = {
    "serve": LazyCommand("engine.cli:serve", "Serve the Tinker protocol until interrupted."),
    "init-model": LazyCommand(
        "recipes.cli:init_model",
        "Make a tiny Qwen3-type model with its own tokenizer and pre-train it on a dataset's unlabelled prompts.",
    ),
    "export": LazyCommand(
        "recipes.export:export",
        "Write a checkpoint of the local engine as a peft adapter or, with --merged, as a model for transformers.",
    ),
}

app = lazy_group(COMMANDS, no_args_is_help=True, pretty_exceptions_show_locals=False)
engine = lazy_group(ENGINE_COMMANDS, no_args_is_help=True, help=COMMANDS["engine"].about)


@app.callback()
def _about() -> None:
    """Reinforcement-learning environments that ask a language model to judge science."""


def main() -> None:
    """Entry point of the console script."""
    app()
