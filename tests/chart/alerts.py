"""What Prometheus knows of a word count that is well, and of one that is ill in one way: series for `promtool test rules`.

Values are in promtool's notation: `0+30x120` is 0 and 120 more samples, each 30 higher than the one before.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Series = Mapping[str, str]

TASKS = {"sentences": 2, "split": 4, "count": 4, "sink": 2, "__acker": 4}
"""The tasks of `ci/minimal-values.yaml`."""
PIPELINE = 'namespace="words",pod="wordcount-pipeline-7d4b9-x2x1z"'


def of_component(metric: str, component: str, more: str = "") -> str:
    """A series that a pod of that component shows."""
    pod = f"wordcount-{component.strip('_')}-0"
    return f'{metric}{{namespace="words",topology="wordcount",component="{component}",pod="{pod}"{more}}}'


def of_pipeline(metric: str, more: str = "") -> str:
    """A series that the pipeline's driver shows."""
    return f"{metric}{{{PIPELINE}{more}}}"


def steady(value: float) -> str:
    """A gauge that stays as it is, for an hour."""
    return f"{value:g}x240"


def growing(by: float) -> str:
    """A counter that grows so much from one scrape to the next, for an hour."""
    return f"0+{by:g}x240"


def once(at: int, by: float = 1) -> str:
    """A counter that grows at the scrape of that number, and never again."""
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
    ERRORS: once(20),  # a single one is told of by the log alone
    STILL: steady(9),
    BEHIND: "0+15x10 " * 20,  # as batches come and go
    QUARANTINE: steady(0),
    MOSTLY: steady(0),
}
"""An hour of scrapes, each 15 s after the one before."""


@dataclass(frozen=True, slots=True)
class Illness:
    """What is otherwise than in `WELL` while one alert is to fire."""

    alert: str
    fires: int
    """The minute at which it fires, and at which no other alert does."""
    labels: Mapping[str, str]
    """Of the alert, besides its severity."""
    series: Series
    silent: int | None = None
    """The minute until which it is silent, though it is ill already: its patience."""
    leaves_out: tuple[str, ...] = field(default=())
    """Metrics that nobody shows."""


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
"""One for each alert of the chart."""

YOUNG = (
    Illness("KstormDeadLetters", 6, {"component": "split"}, {LETTERS: "_x20 1x220"}, silent=4),
    Illness("KstormPipelineQuarantine", 6, {}, {QUARANTINE: "_x20 7x220"}, silent=4),
    Illness("KstormPipelineMostlyQuarantined", 6, {}, {MOSTLY: "_x20 1x220"}, silent=4),
)
"""The same, of a process that did it before it was scraped for the first time: nobody saw its counter at 0."""
