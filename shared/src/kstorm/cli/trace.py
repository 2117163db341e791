"""`kstorm trace`: show the tree of a message, built from the topology's topics.

kstorm trace sentences/3/10482 --topology hello:topology
kstorm trace --sink word-counts/1/5521 --topology hello      # on Kubernetes, from a sink's record
kstorm trace --slowest 5 --since 10m
"""

import re
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Annotated, Any, Final

import msgspec
import typer

from kstorm.cli.json_output import Json
from kstorm.cli.options import with_options
from kstorm.cli.trace_options import (
    Coordinates,
    TraceOptions,
    check_far_url,
    open_traces,
    run_in_pod,
)
from kstorm.errors import ConfigError, ControlError
from kstorm.kafka.lineage import ROOTS
from kstorm.operations.formatting import counted
from kstorm.operations.traces.fact_queries import tuple_letters
from kstorm.operations.traces.slowest_trees import slowest_trees as find_slowest
from kstorm.operations.traces.topology_traces import TopologyTraces, parse_message
from kstorm.operations.traces.traceparents import traceparent_of
from kstorm.operations.trees.drawing import draw, headline
from kstorm.operations.trees.facts import MessageId
from kstorm.operations.trees.tree import Tree
from kstorm.operations.trees.tree_export import to_dot, to_json
from kstorm.printable import printable

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}


@with_options(TraceOptions)
def trace(
    options: TraceOptions,
    message: Coordinates = None,
    attempt: Annotated[
        int | None,
        typer.Option("--attempt", min=1, metavar="N", help="Attempt to show. Default: the newest."),
    ] = None,
    root: Annotated[
        str | None,
        typer.Option("--root", metavar="HEX", help="Show the tree of this root instead."),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(
            "--sink",
            metavar="TOPIC/PARTITION/OFFSET",
            help="Show the trees that this record with lineage comes from.",
        ),
    ] = None,
    slowest: Annotated[
        int | None,
        typer.Option(
            "--slowest",
            min=1,
            metavar="N",
            help="Show the N trees that took longest since --since.",
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            "--since",
            metavar="AGE",
            help="Age of the oldest trees for --root and --slowest: 30s, 10m, 2h.",
        ),
    ] = "10m",
    values: Annotated[bool, typer.Option("--values", help="Show the values of tuples.")] = False,
    all_: Annotated[
        bool, typer.Option("--all", help="Show each tuple. Do not group similar ones.")
    ] = False,
    json: Json = False,
    dot: Annotated[bool, typer.Option("--dot", help="Print a graph for Graphviz.")] = False,
    otlp_url: Annotated[
        str | None,
        typer.Option(
            "--otlp", metavar="URL", help="Send the tree as spans to this OpenTelemetry collector."
        ),
    ] = None,
) -> None:
    """Show a message's tree: its tuples, their tasks and times, and the proof of completion."""
    if sum(wanted is not None for wanted in (message, root, sink, slowest)) != 1:
        raise ConfigError(
            "give one of these: a message TOPIC/PARTITION/OFFSET, --root, --sink, --slowest"
        )
    asked = _Asked(message, root, sink, slowest, since, attempt)
    flags = {"--values": values, "--all": all_, "--json": json, "--dot": dot}
    words = [*asked.words(), *(name for name, given in flags.items() if given)]
    arguments = [] if message is None else [message]
    if otlp_url is not None:
        _send(asked, options, otlp_url, words, arguments)
        return
    run_in_pod(options, "trace", *words, arguments=arguments)
    with open_traces(options) as tracing:
        trees = list(asked.trees(tracing, options))
        for line in _printed(trees, tracing, asked.shows_all, json, dot, values, all_):
            print(line)


def _send(
    asked: "_Asked", options: TraceOptions, url: str, words: Sequence[str], arguments: Sequence[str]
) -> None:
    if options.is_far:
        check_far_url(url)
        run_in_pod(options, "trace", *words, f"--otlp={url}", arguments=arguments, kinds=["spout"])
    # Importing OpenTelemetry is slow, and few users need it.
    from kstorm.operations.traces import otlp

    url = otlp.check_url(url)
    with open_traces(options) as tracing:
        trees = asked.trees(tracing, options)
        sent = otlp.export(trees, tracing.topology, url, partial(traceparent_of, tracing.log))
    print(f"{counted(sent, 'span')} of {counted(len(trees), 'tree')} sent to {url}")


class _Asked:
    """The user's selection of trees. Raises `ConfigError` if an argument is malformed."""

    def __init__(
        self,
        message: str | None,
        root: str | None,
        sink: str | None,
        slowest: int | None,
        since: str,
        attempt: int | None,
    ) -> None:
        self._message = None if message is None else parse_message(message)
        self._sink = None if sink is None else parse_message(sink)
        self._root = None if root is None else parse_root(root)
        self._slowest, self._attempt = slowest, attempt
        self._since, self._said = parse_age(since), since
        self.shows_all = message is None

    def words(self) -> Iterator[str]:
        """Yield the selection as options, except the message."""
        if self._root is not None:
            yield f"--root={self._root:016x}"
        if self._sink is not None:
            yield f"--sink={self._sink}"
        if self._slowest is not None:
            yield f"--slowest={self._slowest}"
        if self._attempt is not None:
            yield f"--attempt={self._attempt}"
        yield f"--since={self._said}"

    def trees(self, tracing: TopologyTraces, options: TraceOptions) -> Sequence[Tree]:
        """Return the selected trees. Raises `ControlError` if none are found."""
        if self._message is not None:
            # If no spout reads this topic, this raises an error that lists the spouts and their
            # topics.
            tracing.reading_of(self._message.topic, options.component)
            return self._of_message(tracing, self._message)
        if self._root is not None:
            return [self._of_root(tracing, self._root, self._begin)]
        if self._sink is not None:
            return self._of_sink(tracing, self._sink)
        found = find_slowest(tracing.topology, tracing.log, self._begin, self._slowest or 1)
        if not found:
            raise ControlError(
                f"no tree was completed in the last {self._said}: look further back with --since"
            )
        return [tracing.tracer.tree(root, begun) for root, begun in found]

    @property
    def _begin(self) -> int:
        return int((time.time() - self._since) * 1000)

    def _of_message(self, tracing: TopologyTraces, message: MessageId) -> Sequence[Tree]:
        found = tracing.tracer.attempts(message)
        if self._attempt is not None:
            found = [
                tree for tree in found if tree.origin and tree.origin.attempt == self._attempt
            ] or found
        if not found:
            limit = tracing.log.budget.exhausted
            raise ControlError(
                f"no tree of {message} was found"
                f"{limit and f', but not everything was read: {limit}'}; see `kstorm why {message}`"
            )
        return found

    def _of_root(self, tracing: TopologyTraces, root: int, since: int) -> Tree:
        begun = tracing.tracer.find(root, since)
        if begun is None:
            raise ControlError(
                f"no tree of the root {root:016x} began in the last {self._said}: look further "
                "back with --since"
            )
        return tracing.tracer.tree(root, begun.timestamp, begun.task)

    def _of_sink(self, tracing: TopologyTraces, sink: MessageId) -> Sequence[Tree]:
        headers, written = tracing.log.headers_at((sink.topic, sink.partition), sink.offset)
        roots = next((value for name, value in headers if name == ROOTS), "")
        if not roots:
            raise ControlError(
                f"{sink} has no header {ROOTS}: make its KafkaBolt write it, using with_lineage()"
            )
        patience = max(spout.timeout_ms / 1000 for spout in tracing.topology.spouts)
        since = int(written - 1000 * 2 * min(patience, _UNITS["d"]))
        return [self._of_root(tracing, parse_root(root), since) for root in roots.split(",")]


def parse_root(text: str) -> int:
    """Parse a root. Raises `ConfigError` if it is malformed."""
    if not re.fullmatch("(0x)?[0-9a-fA-F]{1,16}", text):
        raise ConfigError(f"{text}: a root is up to 16 hex digits, such as 43d7b9f2bfd10872")
    return int(text, 16)


def parse_age(text: str, option: str = "--since") -> int:
    """Parse an age and return it in seconds. Raises `ConfigError` if it is malformed."""
    found = re.fullmatch("([0-9]{1,9})([smhd])", text)
    if not found:
        raise ConfigError(f"{option} {text}: give an age such as 30s, 10m, 2h or 1d")
    return int(found[1]) * _UNITS[found[2]]


def _printed(
    trees: Sequence[Tree],
    tracing: TopologyTraces,
    each: bool,
    json: bool,
    dot: bool,
    values: bool,
    everything: bool,
) -> Iterator[str]:
    if json:
        found: list[dict[str, Any]] = [to_json(tree, values) for tree in trees]
        yield msgspec.json.encode(found, enc_hook=repr).decode()
        return
    if dot:
        yield from to_dot(trees[-1])
        return
    letters = tuple_letters(tracing.topology, tracing.log)
    drawn = [tree for tree in trees if each or _is_of_the_same_moment(tree, trees[-1])]
    for tree in trees:
        if tree not in drawn:
            yield printable(headline(tree, tracing.topology, letters))
    for tree in drawn:
        yield from map(printable, draw(tree, tracing.topology, values, everything, letters))
    if any(tree.outcome == "open" for tree in trees[-1:]) and trees[-1].origin:
        print(
            f"kstorm: `kstorm why {MessageId(*trees[-1].origin[:3])}` shows which task has it",
            file=sys.stderr,
        )


def _is_of_the_same_moment(tree: Tree, other: Tree) -> bool:
    """Return True if both trees are of the same attempt and began within a second.

    A scheme may make several tuples of a message, each with its own tree.
    """
    attempt, its = (one.origin.attempt if one.origin else 0 for one in (tree, other))
    return attempt == its and abs(other.begun - tree.begun) < _AT_ONCE_MS


_AT_ONCE_MS: Final = 1000
