"""Prometheus series of a healthy word count, and of one with a single fault, for `promtool test
rules`.

Values are in promtool's notation: `0+30x120` is 0 and 120 more samples, each 30 higher than the one
before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Series = Mapping[str, str]

TASKS = {"sentences": 2, "split": 4, "count": 4, "sink": 2, "__acker": 4}
"""The tasks of `ci/minimal-values.yaml`."""
PIPELINE = 'namespace="words",pod="wordcount-pipeline-7d4b9-x2x1z"'


def of_component(metric: str, component: str, more: str = "") -> str:
    """Return the name of a series that a pod of the component exports."""
    pod = f"wordcount-{component.strip('_')}-0"
    return f'{metric}{{namespace="words",topology="wordcount",component="{component}",pod="{pod}"{more}}}'


def of_pipeline(metric: str, more: str = "") -> str:
    """Return the name of a series that the pipeline's driver exports."""
    return f"{metric}{{{PIPELINE}{more}}}"


def steady(value: float) -> str:
    """A gauge with a constant value for an hour."""
    return f"{value:g}x240"


def growing(by: float) -> str:
    """A counter that grows by this amount per scrape, for an hour."""
    return f"0+{by:g}x240"


def once(at: int, by: float = 1) -> str:
    """A counter that grows once, at this scrape."""
    return f"0x{at} {by:g}x{240 - at}"


PENDING = of_component("kstorm_spout_pending", "sentences")
ACKED = of_component("kstorm_spout_acked_total", "sentences")
EMITTED = of_component("kstorm_spout_emitted_total", "sentences")
FAILED = of_component("kstorm_spout_failed_total", "sentences", ',reason="timeout"')
OLDEST = of_component(
    "kstorm_spout_oldest_unfinished_seconds", "sentences", ',topic="sentences",partition="3"'
)
LETTERS = of_component("kstorm_dead_letters_total", "split")
ERRORS = of_component("kstorm_errors_total", "split")
ANEW = of_component("kstorm_begun_anew_total", "count")
AWAY = of_component("kstorm_kafka_away_seconds", "count")
STILL = of_pipeline("kstorm_pipeline_standing_still_seconds", ',query="refine"')
BEHIND = of_pipeline("kstorm_pipeline_lag_seconds", ',table="silver"')
QUARANTINE = of_pipeline("kstorm_pipeline_rows_total", ',table="quarantine"')
MOSTLY = of_pipeline("kstorm_pipeline_mostly_quarantined_batches_total")

WELL: Series = {
    **{
        of_component("kstorm_tasks", component): steady(tasks) for component, tasks in TASKS.items()
    },
    **{of_component("kstorm_begun_anew_total", component): steady(0) for component in TASKS},
    PENDING: steady(40),
    ACKED: growing(594),
    EMITTED: growing(600),
    FAILED: growing(6),  # one in a hundred
    OLDEST: steady(2),
    LETTERS: once(20, 0),
    ERRORS: once(20),  # a single error only appears in the log
    STILL: steady(9),
    BEHIND: "0+15x10 " * 20,  # it falls with each batch
    QUARANTINE: steady(0),
    MOSTLY: steady(0),
}
"""An hour of scrapes at intervals of 15 s."""


@dataclass(frozen=True, slots=True)
class Illness:
    """The difference from `WELL` that must fire one alert."""

    alert: str
    fires: int
    """The minute at which only this alert fires."""
    labels: Mapping[str, str]
    """Labels of the alert, apart from its severity."""
    series: Series
    silent: int | None = None
    """The minute until which the alert stays silent despite the fault: its `for`."""
    leaves_out: tuple[str, ...] = field(default=())
    """Metrics that no pod exports."""


def _spout(**more: str) -> Mapping[str, str]:
    return {"component": "sentences", **more}


ILLNESSES = (
    Illness("KstormKafkaAway", 3, {"component": "count"}, {AWAY: "0+15x240"}, silent=1),
    Illness(
        "KstormBeginsAnew",
        25,
        {"component": "count"},
        {ANEW: "0x20 1x20 2x20 3x20 4x160"},
        silent=15,
    ),
    Illness(
        "KstormStalled",
        20,
        _spout(),
        {ACKED: "0+594x20 11880x220", EMITTED: "0+600x20 12000x220"},
        silent=9,
    ),
    Illness(
        "KstormUnfinished",
        7,
        _spout(topic="sentences", partition="3"),
        {OLDEST: "0+15x240"},
        silent=5,
    ),
    Illness("KstormFailing", 15, _spout(), {FAILED: growing(60)}, silent=9),
    Illness("KstormDeadLetters", 6, {"component": "split"}, {LETTERS: once(20)}, silent=4),
    Illness("KstormErrors", 15, {"component": "split"}, {ERRORS: growing(1)}, silent=9),
    Illness(
        "KstormTasksMissing",
        6,
        {"component": "count"},
        {of_component("kstorm_tasks", "count"): steady(3)},
        silent=4,
    ),
    Illness("KstormPipelineMissing", 11, {"namespace": "words"}, {}, 9, (STILL,)),
    Illness("KstormPipelineStandsStill", 4, {"query": "refine"}, {STILL: "0+15x240"}, silent=2),
    Illness("KstormPipelineBehind", 21, {"table": "silver"}, {BEHIND: "0+15x240"}, silent=19),
    Illness("KstormPipelineQuarantine", 6, {}, {QUARANTINE: once(20, 7)}, silent=4),
    Illness(
        "KstormPipelineMostlyQuarantined",
        6,
        {},
        {MOSTLY: once(20), QUARANTINE: steady(0)},
        silent=4,
    ),
)
"""One per alert of the chart."""

YOUNG = (
    Illness("KstormDeadLetters", 6, {"component": "split"}, {LETTERS: "_x20 1x220"}, silent=4),
    Illness("KstormPipelineQuarantine", 6, {}, {QUARANTINE: "_x20 7x220"}, silent=4),
    Illness("KstormPipelineMostlyQuarantined", 6, {}, {MOSTLY: "_x20 1x220"}, silent=4),
)
"""The same for a process whose event happened before its first scrape.

Prometheus never saw the counter at 0.
"""
