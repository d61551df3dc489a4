"""What is wrong with a run, as pure functions of its rows. All thresholds stand in this file.

A rule looks at the last `RECENT` rows that have its metric, because a single bad step is noise, unless its docstring
says otherwise; it raises no alarm about a run that does not log what it needs. An alarm is about the state at the last
row; `history` says when each was on.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from ...evaluation.render.figures import mean_of
from . import metrics as m
from .metrics import Row

RECENT = 5
"""The number of rows that are the present."""
SAMPLER_KL_HIGH = 0.01
"""Nats per token. Sampler and trainer disagree: numerics, or samples of an earlier policy. Importance ratios scatter by
the square root of twice this, 14 %."""
SAMPLER_KL_SPIKE = 0.1
"""Nats per token, in a single step: importance ratios scatter by 45 %."""
REFERENCE_KL_SPIKE = 4.0
"""A jump to this multiple of the median of the steps before. It counts above `REFERENCE_KL_FLOOR` nats per token only,
since a policy that starts from its reference moves away from 0 by any factor."""
REFERENCE_KL_FLOOR = 0.25
REFERENCE_KL_BEFORE = 20
ENTROPY_LEFT = 0.1
"""Share of the entropy at the start; with less left, a policy that is still wrong explores no other answers."""
MOSTLY_CORRECT = 0.9
"""A policy with this share of right answers may have any entropy."""
LABEL_SHARE = 0.95
"""Share of the predictions that are one label ..."""
LABEL_EXCESS = 0.2
"""... and how far that is above the label's share among the right answers."""
SATURATED = 0.9
"""Share of groups with equal rewards, which teach nothing."""
TRUNCATED = 0.1
"""Share of rollouts that were cut off."""
UNPARSED = 0.5
"""Share of answers that cannot be parsed."""
UNTRAINED = 0.02
"""Share of answers that can be parsed: a policy with no more than this does not know the answer format."""
LOSS_RISE = 1.5
"""The multiple of the lowest running mean of `RECENT` losses; the rise is also at least `LOSS_RISE_FLOOR`."""
LOSS_RISE_FLOOR = 0.05
HORIZON = 50
"""The number of rows before the last that a rule may look at, beside the first ones."""


@dataclass(frozen=True)
class Alarm:
    """Something that is wrong with a run: the rule, such as ``"kl-spike"``, the step of the row that it is about, and
    the observation with its value and what to do about it. After an error, what the run learns is worthless."""

    name: str
    level: Literal["warning", "error"]
    step: int
    message: str


def not_finite(rows: Sequence[Row]) -> Iterator[Alarm]:
    """A metric is NaN or infinite in any row: weights do not recover from it. The alarm names the first such row."""
    for row in rows:
        bad = [name for name, value in row.items() if isinstance(value, float) and not math.isfinite(value)]
        if bad:
            more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
            text = f"{bad[0]} is {row[bad[0]]}{more}; go back to a checkpoint before this step, with a lower rate"
            yield Alarm("not-finite", "error", row["step"], text)
            return


def sampler_kl(rows: Sequence[Row]) -> Iterator[Alarm]:
    """KL of sampler and trainer is above `SAMPLER_KL_SPIKE` in the last step, or above `SAMPLER_KL_HIGH` in the median
    of the last `RECENT` steps: in fewer it may be noise."""
    for measure in (m.SAMPLER_KL, m.SAMPLER_KL_V1):
        points = m.finite(rows, measure.key)[-RECENT:]
        if not points:
            continue
        (step, last), middle = points[-1], median(abs(value) for _, value in points)
        if abs(last) > SAMPLER_KL_SPIKE:
            text = f"{measure.key} is {last:.3g} (limit {SAMPLER_KL_SPIKE:g}); lower learning_rate or num_substeps"
            yield Alarm("kl-spike", "error", step, text)
            return
        if len(points) == RECENT and middle > SAMPLER_KL_HIGH:
            text = (
                f"{measure.key} has a median of {middle:.3g} over {RECENT} steps (limit {SAMPLER_KL_HIGH:g}): the "
                "policy trains on samples of another one; lower learning_rate, num_substeps or the off-policy lag"
            )
            yield Alarm("kl-high", "warning", step, text)
            return


def reference_kl(rows: Sequence[Row]) -> Iterator[Alarm]:
    """KL to the reference policy jumped to `REFERENCE_KL_SPIKE` times the median of the steps before."""
    points = m.finite(rows, m.REFERENCE_KL.key)
    before = [value for _, value in points[-REFERENCE_KL_BEFORE - 1 : -1]]
    if len(before) < RECENT:
        return
    (step, last), usual = points[-1], median(before)
    if last > REFERENCE_KL_FLOOR and last > REFERENCE_KL_SPIKE * usual:
        text = (
            f"{m.REFERENCE_KL.key} jumped to {last:.3g} from a median of {usual:.3g} over {len(before)} steps; look at "
            "the transcripts, raise kl_penalty_coef or lower learning_rate"
        )
        yield Alarm("kl-spike", "warning", step, text)


def entropy_collapse(rows: Sequence[Row]) -> Iterator[Alarm]:
    """Entropy is below `ENTROPY_LEFT` of its value at the start, in a policy that is not `MOSTLY_CORRECT`."""
    points = m.finite(rows, m.ENTROPY.key)
    if len(points) < 2 * RECENT:
        return
    start, now = _mean(points[:RECENT]), _mean(points[-RECENT:])
    right = m.finite(rows, m.CORRECT.key)
    if now < ENTROPY_LEFT * start and not (right and _mean(right[-RECENT:]) >= MOSTLY_CORRECT):
        text = (
            f"entropy fell from {start:.3g} to {now:.3g} nats per token while answers are still wrong; raise "
            "kl_penalty_coef or temperature, lower learning_rate, or start from a less certain policy"
        )
        yield Alarm("entropy-collapse", "warning", points[-1][0], text)


def label_collapse(rows: Sequence[Row]) -> Iterator[Alarm]:
    """One label is predicted almost always (`LABEL_SHARE`), and far more often than it is right (`LABEL_EXCESS`)."""
    for label in m.labels_of(rows[-RECENT:]):
        predicted = m.finite(rows, m.PREDICTED + label)[-RECENT:]
        expected = m.finite(rows, m.EXPECTED + label)[-RECENT:]
        share, usual = _mean(predicted), _mean(expected)
        if len(predicted) == RECENT and share > LABEL_SHARE and share - usual > LABEL_EXCESS:
            text = (
                f"{share:.0%} of the rollouts say {label!r}, which is right for {usual:.0%}; the other labels are no "
                "longer tried: raise kl_penalty_coef, balance the classes, or start from an earlier checkpoint"
            )
            yield Alarm("label-collapse", "warning", predicted[-1][0], text)
            return


def saturated_groups(rows: Sequence[Row]) -> Iterator[Alarm]:
    """More than `SATURATED` of the groups have equal rewards, so that they carry no signal."""
    for step, share in _recent(rows, m.NO_SIGNAL):
        if share > SATURATED:
            floor, best = (_mean(m.finite(rows, part.key)[-RECENT:]) for part in (m.ALL_FLOOR, m.ALL_BEST))
            if best >= floor:
                advice = "the training prompts are solved: use harder ones, or stop"
            else:
                advice = "the prompts are too hard for this policy: easier ones first, larger groups, or SFT before RL"
            text = f"{share:.0%} of the groups carry no signal ({best:.0%} all best, {floor:.0%} all floor); {advice}"
            yield Alarm("saturated-groups", "warning", step, text)


def truncation(rows: Sequence[Row]) -> Iterator[Alarm]:
    """More than `TRUNCATED` of the rollouts were cut off by a token limit, which costs them the floor."""
    thinking = dict(_recent(rows, m.TRUNCATED_THINKING))
    for step, share in _recent(rows, m.TRUNCATED):
        if share > TRUNCATED:
            text = f"{share:.0%} of the rollouts are cut off (limit {TRUNCATED:.0%})"
            # Of another model it is the answer itself that is too long.
            often = thinking.get(step, 0.0) > share / 2
            text += f", {thinking[step]:.0%} while still thinking; raise max_tokens" if often else "; raise max_tokens"
            text += ", or take the model's renderer without thinking (renderer_name=)" if often else ""
            yield Alarm("truncation", "warning", step, text)


def unparsed(rows: Sequence[Row]) -> Iterator[Alarm]:
    """More than `UNPARSED` of the answers cannot be parsed."""
    for step, share in _recent(rows, m.PARSED):
        if share < 1 - UNPARSED:
            text = f"only {share:.0%} of the answers can be parsed; start from a policy that knows the answer format"
            yield Alarm("unparsed", "warning", step, text)


def untrained_format(rows: Sequence[Row]) -> Iterator[Alarm]:
    """Hardly any answer could be parsed at the start (`UNTRAINED`), and hardly any can now: no reward tells answers
    apart. It is raised at the first row, and by greedy validation answers where a run logs no others."""
    for measure in (m.PARSED, m.VALIDATION_ANSWERED):
        points = m.finite(rows, measure.key)
        if points and points[0][1] <= UNTRAINED and points[-1][1] <= UNTRAINED:
            text = (
                f"{points[-1][1]:.0%} of the answers can be parsed, as at the start: max_tokens cuts them off, or the "
                "policy does not know the answer format; raise max_tokens, start from SFT (scisci-gym train sft "
                "answers=random), or make the tiny model for this environment (scisci-gym engine init-model --env)"
            )
            yield Alarm("untrained-format", "error", points[-1][0], text)
            return


def loss_rise(rows: Sequence[Row]) -> Iterator[Alarm]:
    """The loss of SFT or DPO rose to `LOSS_RISE` times its lowest running mean within `HORIZON` rows."""
    for measure in (m.NLL, m.DPO_LOSS):
        points = m.finite(rows, measure.key)[-HORIZON:]
        means = [_mean(points[end - RECENT : end]) for end in range(RECENT, len(points) + 1)]
        # The first and the last mean have no row in common.
        if len(means) > RECENT and means[-1] > max(LOSS_RISE * min(means), min(means) + LOSS_RISE_FLOOR):
            text = f"{measure.key} rose from {min(means):.3g} to {means[-1]:.3g}; lower learning_rate"
            yield Alarm("loss-rise", "warning", points[-1][0], text)
            return


RULES: tuple[Callable[[Sequence[Row]], Iterator[Alarm]], ...] = (
    *(not_finite, sampler_kl, reference_kl, entropy_collapse, label_collapse),
    *(saturated_groups, truncation, unparsed, untrained_format, loss_rise),
)


def alarms(rows: Sequence[Row]) -> list[Alarm]:
    """All alarms that are on at the last of these rows of `metrics.jsonl`, in the order of the rules, errors first."""
    return sorted((alarm for rule in RULES for alarm in rule(rows)), key=lambda alarm: alarm.level != "error")


def history(rows: Sequence[Row], points: int = 200) -> list[tuple[Alarm, int, int]]:
    """(alarm as first seen, first step, last step) of every rule that was on at any time, for reports.

    The rules are tried at so many points, evenly spread over the rows up to the last; at all rows of a shorter run.
    """
    spans: dict[tuple[str, str], tuple[Alarm, int, int]] = {}
    every = max(1, -(-len(rows) // points))
    for end in sorted({*range(every, len(rows) + 1, every), len(rows)} - {0}):
        window = rows[:end] if end <= HORIZON + RECENT else [*rows[:RECENT], *rows[end - HORIZON : end]]
        for alarm in alarms(window):
            first, start, _ = spans.get((alarm.name, alarm.level), (alarm, alarm.step, alarm.step))
            spans[alarm.name, alarm.level] = (first, start, rows[end - 1]["step"])
    return sorted(spans.values(), key=lambda span: (span[0].level != "error", span[1]))


def _recent(rows: Sequence[Row], measure: m.Measure) -> list[tuple[int, float]]:
    """[(step of the last value, mean of the last `RECENT` values)]; empty if there are fewer values."""
    points = m.finite(rows, measure.key)[-RECENT:]
    return [(points[-1][0], _mean(points))] if len(points) == RECENT else []


def _mean(points: Sequence[tuple[int, float]]) -> float:
    return mean_of([value for _, value in points]) if points else 0.0
