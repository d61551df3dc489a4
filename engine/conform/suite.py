"""All checks, run one after the other on a server, and their report."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Literal

from . import checkpoint_checks as saved
from . import route_checks as routes
from . import sampling_checks as sampling
from . import training_checks as training
from .client import Client, Nonconformity, checkpoint_route

Function = Callable[[Client, float], None]

NEEDED: dict[str, tuple[Function, ...]] = {
    "routes": (
        *(routes.health, routes.client_config, routes.capabilities, routes.session, routes.model_info),
        *(routes.sampler_info, routes.training_run, routes.bad_requests),
    ),
    "training": (
        *(training.one_logprob_for_every_target, training.cross_entropy, training.importance_sampling, training.ppo),
        *(training.clipped_tokens_have_no_gradient, training.a_step_lowers_the_loss, training.gradients_accumulate),
        *(training.a_forward_pass_leaves_no_gradient, training.requests_are_done_in_order),
    ),
    "sampling": (
        *(sampling.a_seed_decides_the_samples, sampling.temperature_0_is_greedy, sampling.limits_and_stops),
        *(sampling.sampled_logprobs_are_those_of_training, sampling.prompt_logprobs_are_those_of_training),
    ),
    "checkpoints": (
        *(saved.training_goes_on_from_a_checkpoint, saved.a_saved_sampler_has_the_weights),
        *(saved.checkpoints_are_described_listed_and_deleted, saved.a_name_stays_in_its_place),
    ),
}
"""What the recipes of the cookbook cannot do without, by area."""

OPTIONAL: dict[str, tuple[Function, ...]] = {
    "routes": (
        *(routes.dynamic_config, routes.telemetry, routes.unknown_route, routes.sessions, routes.identity),
        routes.polls_together,
    ),
    "training": (training.cispo, training.dro, training.a_repeated_request_is_done_once),
    "sampling": (sampling.many_requests_at_once,),
    "checkpoints": (saved.copies, saved.exports),
}
"""What some clients ask for, and recipes get on without."""


@dataclass(frozen=True)
class Result:
    """One check: what it is about (a sentence), whether training needs it, and what was wrong if it failed."""

    area: str
    name: str
    about: str
    needed: bool
    status: Literal["pass", "fail"]
    detail: str = ""


@dataclass(frozen=True)
class Report:
    """The results of all checks on a server."""

    url: str
    model: str
    results: tuple[Result, ...]

    @property
    def conforms(self) -> bool:
        """Whether every check that training needs has passed."""
        return all(result.status == "pass" for result in self.results if result.needed)

    def to_json(self) -> dict[str, Any]:
        checks = [asdict(result) for result in self.results]
        about = {"url": self.url, "model": self.model, "sdk": version("tinker"), "conforms": self.conforms}
        return {**about, "checks": checks}

    def lines(self) -> Iterator[str]:
        """The report for people."""
        area = ""
        for result in self.results:
            if result.area != area:
                area = result.area
                yield f"\n{area}"
            mark = "ok  " if result.status == "pass" else "FAIL" if result.needed else "miss"
            yield f"  {mark}  {result.name.replace('_', ' ')}" + (f": {result.detail}" if result.detail else "")
        passed = [[r.status == "pass" for r in self.results if r.needed == needed] for needed in (True, False)]
        needed, optional = (f"{sum(some)} of {len(some)}" for some in passed)
        verdict = "conforms" if self.conforms else "does not conform"
        yield f"\n{self.url} {verdict}: {needed} needed checks and {optional} optional ones pass (model {self.model})"


def conform(client: Client, tolerance: float) -> Report:
    """Run all checks. What they have saved on the server is deleted afterwards.

    A difference of two log-probabilities up to `tolerance` is taken for rounding; 0.02 lets 16 bits pass. It is a
    `Nonconformity` if the server cannot be reached, or no base model is named by it or by the client.
    """
    client.get("healthz")
    model = client.model_name
    results = [
        _run(check, client, tolerance, area, needed=needed)
        for area in NEEDED
        for needed, checks in ((True, NEEDED), (False, OPTIONAL))
        for check in checks[area]
    ]
    for path in client.saved:
        client.send("DELETE", checkpoint_route(path))
    client.send("POST", f"sessions/{client.session}/finish", {})
    return Report(client.url, model, tuple(results))


def _run(check: Function, client: Client, tolerance: float, area: str, *, needed: bool) -> Result:
    detail = ""
    try:
        check(client, tolerance)
    except Nonconformity as error:
        detail = str(error)
    # A server may answer anything at all: what the client cannot make sense of is a failed check, and not its end.
    except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
        detail = f"the answer cannot be read ({type(error).__name__}: {error})"
    about = (check.__doc__ or "").strip()
    return Result(area, check.__name__, about, needed, "fail" if detail else "pass", detail)
