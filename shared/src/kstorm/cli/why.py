"""`kstorm why`: explain what an unfinished message waits for.

kstorm why sentences/3/10482 --topology hello:topology
kstorm why --oldest --topology hello        # on Kubernetes: each partition's oldest unfinished one
"""

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from kstorm.cli.json_output import Json
from kstorm.cli.options import with_options
from kstorm.cli.trace_options import Coordinates, TraceOptions, open_traces, run_in_pod
from kstorm.errors import ConfigError
from kstorm.operations.traces.topology_traces import TopologyTraces, parse_message
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.verdict import Verdict
from kstorm.printable import printable

_MOST_TUPLES = 5


@with_options(TraceOptions)
def why(
    options: TraceOptions,
    message: Coordinates = None,
    oldest: Annotated[
        bool,
        typer.Option("--oldest", help="Explain the oldest unfinished message of each partition."),
    ] = False,
    json: Json = False,
) -> None:
    """Explain why a message is unfinished, and which task holds its tuples or lost them."""
    if oldest == (message is not None):
        raise ConfigError("give either a message, TOPIC/PARTITION/OFFSET, or --oldest")
    wanted = None if message is None else parse_message(message)
    flags = [*(["--oldest"] if oldest else []), *(["--json"] if json else [])]
    run_in_pod(options, "why", *flags, arguments=[] if message is None else [message])
    with open_traces(options) as tracing:
        verdicts = list(
            _oldest(tracing, options) if wanted is None else _of(tracing, wanted, options)
        )
    if json:
        print(msgspec.json.encode(verdicts).decode())
        return
    for verdict in verdicts:
        for line in lines(verdict):
            print(line)
    if not verdicts:
        print("no message is unfinished: the stored offsets are at the ends of all partitions")


def lines(verdict: Verdict) -> Iterator[str]:
    """Yield the printed lines of a verdict."""
    yield printable(f"{verdict.message}: {verdict.said}")
    for blocked in verdict.blocked[1 : 1 + _MOST_TUPLES]:
        if blocked.said not in verdict.said:
            yield printable(f"    {blocked.said}")
    if len(verdict.blocked) > 1 + _MOST_TUPLES:
        yield f"    and {len(verdict.blocked) - 1 - _MOST_TUPLES} more"


def _of(tracing: TopologyTraces, message: MessageId, options: TraceOptions) -> Iterator[Verdict]:
    spout, reading = tracing.reading_of(message.topic, options.component)
    with tracing.asking(spout, reading) as asking:
        asking.check(message)
        yield from asking.verdicts([message])


def _oldest(tracing: TopologyTraces, options: TraceOptions) -> Iterator[Verdict]:
    for spout, reading in tracing.readings(options.component).items():
        with tracing.asking(spout, reading) as asking:
            yield from asking.verdicts(asking.oldest())
