"""`kstorm export-traces`: send only trees that failed, timed out or were slow to OpenTelemetry.

kstorm export-traces --otlp http://localhost:4318 --since 1h
kstorm export-traces --otlp http://localhost:4318 --follow --slower-than 2s -t hello:topology
kstorm export-traces --otlp http://collector.monitoring:4318 --topology hello    # from a pod
"""

import re
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Annotated, Final

import typer

from kstorm.cli.json_output import Json, print_json, prose_on_stderr
from kstorm.cli.options import with_options
from kstorm.cli.place_options import TopologyOptions, in_pod
from kstorm.cli.trace import parse_age
from kstorm.cli.trace_options import TraceOptions, check_far_url, open_traces
from kstorm.errors import BrokerError, ConfigError, TopicError
from kstorm.operations.traces.topology_traces import TopologyTraces
from kstorm.operations.trees.outcomes import OutcomeTracker, SlownessRule

_DEFAULT_SINCE: Final = "10m"
_GROUP: Final = "__traces"
_PATIENCE_SECS: Final = 30.0
"""Seconds to wait for an unreachable collector without `--follow`."""
_UNBOUNDED: Final = 1 << 40


@with_options(TopologyOptions)
def export_traces(
    options: TopologyOptions,
    otlp_url: Annotated[
        str,
        typer.Option(
            "--otlp",
            metavar="URL",
            help="URL of the collector, for OTLP over HTTP.",
            show_default=False,
        ),
    ],
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            "-f",
            help="Continue until Ctrl-C. Start where the last --follow stopped, or now if there was none.",
        ),
    ] = False,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="AGE",
            help="Start this long ago: 30s, 10m, 2h. Default: 10m, or see --follow.",
        ),
    ] = None,
    slower_than: Annotated[
        str | None,
        typer.Option(
            "--slower-than",
            metavar="TIME",
            help="Also send complete trees that took longer: 500ms, 2s.",
        ),
    ] = None,
    slowest_share: Annotated[
        float | None,
        typer.Option(
            "--slowest-share",
            metavar="SHARE",
            help="Also send this share of recent complete trees, the slowest: 0.01.",
        ),
    ] = None,
    most: Annotated[
        int,
        typer.Option(
            "--most", min=1, metavar="TREES", help="Send at most this many trees per minute."
        ),
    ] = 100,
    limit_mb: Annotated[
        int,
        typer.Option(
            "--limit-mb",
            min=1,
            metavar="MB",
            help="Read at most this much for the trees of each minute.",
        ),
    ] = 512,
    max_lag: Annotated[
        str,
        typer.Option(
            "--max-lag", metavar="AGE", help="With --follow: skip trees that ended longer ago."
        ),
    ] = "15m",
    headers_file: Annotated[
        Path | None,
        typer.Option(
            "--headers-file",
            metavar="FILE",
            help="Headers for the collector, one NAME: VALUE per line.",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Send trees that failed, timed out or were slow to an OpenTelemetry collector, as spans."""
    slow = _slow(slower_than, slowest_share)
    age = None if since is None else parse_age(since)
    lag = parse_age(max_lag, "--max-lag")
    if options.is_far:
        _check_far(otlp_url, follow, headers_file)
        given = {
            "since": since,
            "slower-than": slower_than,
            "slowest-share": slowest_share,
            "most": most,
        }
        in_pod(
            options,
            "export-traces",
            {"otlp": otlp_url, **given, "limit-mb": limit_mb, "json": json},
            kinds=["spout"],
        )
    # Importing OpenTelemetry is slow.
    from kstorm.operations.traces import otlp

    url = otlp.check_url(otlp_url)
    headers = {} if headers_file is None else otlp.read_headers(headers_file)
    reading = TraceOptions(**options.given(), limit_mb=_UNBOUNDED, within=float("inf"))
    from kstorm.operations.traces.outcome_feed import FeedPosition, OutcomeFeed
    from kstorm.operations.traces.tree_exporter import ExportLimits, TreeExporter, export_until
    from kstorm.operations.traces.tree_exporter import export_forever as go_on

    with (
        ends_quietly(),
        _opened(reading, follow) as tracing,
        otlp.SpanCollector(url, headers) as collector,
    ):
        now = int(time.time() * 1000)
        marks = FeedPosition(tracing.settings, tracing.topology.group(_GROUP)) if follow else None
        begin = _begin(None if marks is None else marks.load(), age, now, follow)
        outcomes = OutcomeTracker(tracing.topology, slow)
        tail = OutcomeFeed(tracing.topology, tracing.log, outcomes, begin)
        limits = (
            ExportLimits(most, limit_mb, 1000 * lag)
            if follow
            else ExportLimits(most, limit_mb, float("inf"), _PATIENCE_SECS)
        )
        exporter = TreeExporter(
            tracing.topology, tracing.log, tail, outcomes, collector, limits, marks
        )
        try:
            if follow:
                with prose_on_stderr(json):
                    _tell_begin(tracing, begin, now, url)
                go_on(exporter, partial(print, flush=True, file=sys.stderr if json else sys.stdout))
            else:
                export_until(exporter, now)
        finally:
            report = exporter.report()
            if json:
                print_json({"topology": tracing.topology.name, "outcome": report})
            else:
                print(report, flush=True)


def _check_far(url: str, follow: bool, headers_file: Path | None) -> None:
    """Raise `ConfigError` if an option does not work in a pod."""
    if follow:
        raise ConfigError(
            "--follow runs forever: set tracing.otlp.endpoint in the values of its release, which "
            "then runs it in a separate pod"
        )
    if headers_file is not None:
        raise ConfigError(
            "--headers-file is on this machine, but a pod of the topology sends: set tracing.otlp "
            "in the values of its release"
        )
    check_far_url(url)


@contextmanager
def _opened(options: TraceOptions, follow: bool) -> Iterator[TopologyTraces]:
    """Open the topology. With `follow`, retry until it is available."""
    from kstorm.operations.traces.tree_exporter import pause

    with ExitStack() as stack:
        for tries in count():
            try:
                tracing = stack.enter_context(open_traces(options))
                break
            except (BrokerError, TopicError) as error:
                if not follow:
                    raise
                pause(tries, str(error), time.sleep)
        yield tracing


def _begin(stored: int | None, age: int | None, now: int, follow: bool) -> int:
    """Return the Unix time in ms at which to start."""
    if age is None and follow:
        return now if stored is None else min(stored, now)
    return now - 1000 * (parse_age(_DEFAULT_SINCE) if age is None else age)


def _tell_begin(tracing: TopologyTraces, begin: int, now: int, url: str) -> None:
    from kstorm.operations.formatting import utc_time

    print(
        f"{tracing.topology.name}: sending trees that end from now on to {url}"
        if begin == now
        else (
            f"{tracing.topology.name}: sending trees that ended since "
            f"{utc_time(begin, now).removeprefix('at ')} to {url}"
        ),
        flush=True,
    )


def _slow(slower_than: str | None, share: float | None) -> SlownessRule:
    if slower_than is not None and share is not None:
        raise ConfigError("give either --slower-than or --slowest-share")
    if share is not None and not 0 < share < 1:
        raise ConfigError(
            f"--slowest-share {share:g}: give a share of the trees between 0 and 1, such as 0.01"
        )
    if slower_than is None:
        return SlownessRule(share=share)
    found = re.fullmatch(r"([0-9]{1,9}(?:\.[0-9]{1,3})?)(ms|s|m)", slower_than)
    if not found:
        raise ConfigError(f"--slower-than {slower_than}: give a time such as 500ms, 2s or 1m")
    return SlownessRule(ms=float(found[1]) * {"ms": 1, "s": 1000, "m": 60_000}[found[2]])


@contextmanager
def ends_quietly() -> Iterator[None]:
    """Exit normally on Ctrl-C and on Kubernetes' SIGTERM."""
    ended: list[int] = []

    def end(number: int, _: object) -> None:
        ended.append(number)
        raise KeyboardInterrupt

    for each in signal.SIGINT, signal.SIGTERM:
        signal.signal(each, end)
    try:
        yield
    except KeyboardInterrupt:
        return
    except Exception:
        # The interrupt may hit a function of confluent-kafka, which raises an error of its own.
        if not ended:
            raise
