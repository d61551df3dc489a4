"""The certificate of `scisci-gym check --learnable`: its checks, its profile of difficulty and its file.

The shapes are those of environment quality reports elsewhere: a check has an id, a status, what was observed and what
was asked for (as in OpenEnv's RFC 008), and the difficulty comes with pass rates by task (as in NeMo Gym's reports).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...datasets.atomic_files import write_json_atomically
from ...evaluation.probes.pass_rates import shares
from ...evaluation.reachable import Reachable

SCHEMA = "scisci-gym/certificate/1"
TARGET = 0.9
TARGETS = {"disruption-v0": 0.95, "novelty-v0": 0.95}
"""The share of the gap between the start and the best reader that RL has to close; `TARGET` for all others."""
BUDGET = 1200.0
"""CPU seconds: ten minutes on two cores."""


def write_certificate(
    out: Path,
    env_id: str,
    settings: dict[str, Any],
    seeds: Sequence[dict[str, Any]],
    checks: list[dict[str, Any]],
    seconds: dict[str, float | None],
) -> dict[str, Any]:
    """Write `out`/certificates/ENV.json and return what it holds.

    Parameters
    ----------
    settings : dict
        Of the proof, as JSON.
    seeds : sequence of dict
        What was found with each seed; the record of its run of RL is under ``record``, if it was trained.
    checks : list of dict
        All checks of all seeds; one that failed makes the verdict.
    seconds : dict
        ``wall`` and ``cpu``, None where they were not ours to measure.
    """
    records = [facts["record"] for facts in seeds if "record" in facts]
    record = records[0] if records else {}
    certificate = {
        "schema": SCHEMA,
        "environment": env_id,
        "verdict": "fail" if any(check["status"] == "fail" for check in checks) else "pass",
        "checks": checks,
        "difficulty": _difficulty(seeds),
        "settings": settings,
        "seeds": [{name: fact for name, fact in facts.items() if name != "record"} for facts in seeds],
        "seconds": seconds,
        "versions": record.get("versions", {}),
        "revision": record.get("revision"),
    }
    path = out / "certificates" / f"{env_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json_atomically(path, certificate)
    return certificate


def untrained_checks(limits: Reachable) -> list[dict[str, Any]]:
    """The checks that need no training: the oracle, the degenerate answers, and whether the text tells the labels."""
    floor, best = limits.reward_range
    worst = max(limits.degenerate.values())
    # How much evidence there is to quote depends on the paper, so only the rest is certain.
    certain, asked = best - limits.for_reasons, f"{best:g}, the most there is"
    if limits.for_reasons:
        asked = f"at least {certain:g}: {asked}, less {limits.for_reasons:g} for reasons"
    return [
        _check("semantic.oracle_max", limits.oracle > certain - 1e-6, limits.oracle, asked),
        _check("semantic.noop_floor", limits.no_op <= floor, limits.no_op, f"{floor:g}, the least there is"),
        _check("adversarial.degenerate_floor", worst <= floor, worst, f"{floor:g} for each text that is no answer"),
        _check("adversarial.length", limits.padded <= 1e-9, limits.padded, "nothing for filler before an answer"),
        _check(
            "learnable.headroom",
            limits.advantage >= 2,
            limits.advantage,
            "the best reader at least 2 standard errors above the best single answer",
        ),
    ]


def learned_checks(env_id: str, facts: dict[str, Any]) -> list[dict[str, Any]]:
    """The checks of what RL reached with one seed; the shares of the gap that it closed are added to `facts`."""
    target = TARGETS.get(env_id, TARGET)
    within_reach, best = facts["best_without_quotes"], facts["best"]
    facts["closed"] = closed = _share_closed(facts, within_reach)
    reader = "the best reader"
    if best > within_reach:
        reader += " without quotes"
        facts["closed_with_quotes"] = _share_closed(facts, best)
    above_chance = (facts["end"] - facts["chance"]) / (within_reach - facts["chance"])
    facts["closed_from_chance"] = round(above_chance, 4)
    signal = facts["groups_with_signal"]["first_steps"]
    return [
        _check("learnable.gap_closed", closed >= target, closed, f"at least {target:g} up to {reader}"),
        _check(
            "learnable.reads_the_paper",
            above_chance >= 0.5,
            above_chance,
            f"at least half the way from the best single answer to {reader}",
        ),
        _check("learnable.signal", signal >= 0.2, signal, "rewards differ in a fifth of the groups of the first steps"),
    ]


def _share_closed(facts: dict[str, Any], best: float) -> float:
    """The share of the gap between the start and `best` that RL closed; 0 where there is no gap."""
    gap = best - facts["start"]
    return round((facts["end"] - facts["start"]) / gap, 4) if gap > 0 else 0.0


def _check(check_id: str, holds: bool, observed: float, expected: str) -> dict[str, Any]:
    return {
        "id": check_id,
        "status": "pass" if holds else "fail",
        "observed": round(float(observed), 4),
        "expected": expected,
    }


def cost_check(seconds: float | None) -> dict[str, Any]:
    """Whether the proof kept to its budget of CPU seconds; None is time that was not ours to measure."""
    if seconds is not None:
        return _check("cost.cpu_seconds", seconds <= BUDGET, seconds, f"at most {BUDGET:g}")
    expected = f"at most {BUDGET:g}; an engine that is not local was not measured"
    return {"id": "cost.cpu_seconds", "status": "not measured", "observed": None, "expected": expected}


def _difficulty(seeds: Sequence[dict[str, Any]]) -> dict[str, float]:
    """Share of the tasks that the policy never, sometimes and always passes; empty without training."""
    rates = [rate for facts in seeds for rate in facts.get("pass_rates", {}).values()]
    if not rates:
        return {}
    found = shares(rates)
    named = {"never": "never right", "sometimes": "sometimes", "always": "always right"}
    return {"tasks": len(rates), **{name: round(found[share], 4) for name, share in named.items()}}
