"""Hypothesis strategies: values, tuples, messages and whole topologies. They need the extra
`kstorm[testing]`.

    @given(messages("sentence", sentence=st.text()))
    def test_every_sentence_is_done(sentences):
        result = complete_topology(topology, {"sentences": sentences})
        assert result.acked("sentences") == list(range(len(sentences)))

All of them shrink towards small examples: None, few fields, one spout with one bolt of one task.
"""

from collections.abc import Callable, Iterable
from datetime import UTC
from typing import Any, Final

from kstorm.fitting import Natural, Positive, Text, checked
from kstorm.testing.random_components import DrawnTopology, Drop, FanOut, Hold, PassOn
from kstorm.testing.spouts import FeederSpout
from kstorm.topology import (
    BasicBolt,
    Bolt,
    BoltDeclarer,
    Config,
    Fields,
    OutputFieldsDeclarer,
    TopologyBuilder,
)
from kstorm.topology.groupings import GROUPINGS, CustomGrouping, DirectGrouping, KeyedGrouping

try:
    from hypothesis import strategies as st
except ImportError:
    raise ImportError(
        "kstorm.testing.strategies needs Hypothesis, which is not installed: install "
        "kstorm[testing]"
    ) from None

_CHOOSING: Final = [kind for kind in GROUPINGS if kind not in (CustomGrouping, DirectGrouping)]
_KEYLESS: Final = [kind for kind in _CHOOSING if not issubclass(kind, KeyedGrouping)]


def values() -> st.SearchStrategy[Any]:
    """Generate anything that arrives in a tuple unchanged, with up to a few levels of lists and
    dicts.

    These are None, booleans, integers from -2^63 to below 2^64, floats, strings, bytes and
    datetimes with a time zone. NaN is left out, because it is not equal to itself. Values that
    arrive as another type (a tuple as a list, a date as a string) are left out too.
    """
    integers = st.integers(-(2**63), 2**64 - 1)
    plain = (
        st.none()
        | st.booleans()
        | integers
        | st.floats(allow_nan=False)
        | st.text()
        | st.binary()
        | st.datetimes(timezones=st.just(UTC))
    )
    keys = st.text() | integers | st.binary()
    return plain | st.recursive(
        plain,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
        max_leaves=6,
    )


@checked()
def tuples(
    *fields: Text | Iterable[str], **of: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[Any]]:
    """Generate the values of one tuple with these fields: `tuples("word", "count",
    count=st.integers())`.

    A field without its own strategy takes any of `values()`. Raises `TopologyError` for fields that
    no stream could have, and `ValueError` for a strategy of an unknown field.
    """
    names = Fields(*fields)
    for name in of:
        if name not in names:
            raise ValueError(
                f"there is a strategy for {name!r}, which is not a field: the fields are "
                f"{', '.join(names) or 'none'}"
            )
    return st.tuples(*(of.get(name, values()) for name in names)).map(list)


@checked()
def messages(
    *fields: Text | Iterable[str], max_size: Natural = 10, **of: st.SearchStrategy[Any]
) -> st.SearchStrategy[list[list[Any]]]:
    """Generate a spout's input for `complete_topology`: zero to `max_size` of `tuples(…)`."""
    return st.lists(tuples(*fields, **of), max_size=max_size)


def any_bolts() -> st.SearchStrategy[BasicBolt | Bolt]:
    """Generate bolts that accept any tuple: one passes it on, one doubles it, one drops it, one
    holds it."""
    kinds: tuple[Callable[[], BasicBolt | Bolt], ...] = (PassOn, FanOut, Drop, Hold)
    return st.sampled_from(kinds).map(lambda kind: kind())


@checked()
def topologies(
    bolts: st.SearchStrategy[Bolt | BasicBolt] | None = None,
    fields: Iterable[str] = ("key", "value"),
    max_bolts: Positive = 4,
    max_tasks: Positive = 3,
) -> st.SearchStrategy[DrawnTopology]:
    """Generate small valid topologies without cycles.

    They have one or two `FeederSpout`s with these fields, and one to `max_bolts` bolts. Every bolt
    subscribes to streams of components before it, by groupings of all kinds except custom ones.
    `bolts` draws the bolts (default: `any_bolts()`). Each must accept the tuples of all other bolts
    and of the spouts. Spouts are named spout-0 and so on, bolts bolt-0.
    """
    return _topologies(any_bolts() if bolts is None else bolts, fields, max_bolts, max_tasks)


@st.composite
def _topologies(
    draw: st.DrawFn,
    bolts: st.SearchStrategy[Bolt | BasicBolt],
    fields: Iterable[str],
    max_bolts: int,
    max_tasks: int,
) -> DrawnTopology:
    config = Config(
        topology_acker_executors=draw(st.integers(1, 2)),
        topology_acker_tasks=draw(st.integers(1, 3)),
    )
    builder = TopologyBuilder("drawn", config)
    streams: list[tuple[str, str, Fields, bool]] = []
    for number in range(draw(st.integers(1, 2))):
        builder.set_spout(f"spout-{number}", FeederSpout(*fields), draw(st.integers(1, max_tasks)))
        streams.append((f"spout-{number}", "default", Fields(*fields), False))
    for number in range(draw(st.integers(1, max_bolts))):
        name, bolt = f"bolt-{number}", draw(bolts)
        executors = draw(st.integers(1, max_tasks))
        declarer = builder.set_bolt(name, bolt, executors).set_num_tasks(
            draw(st.integers(executors, max_tasks))
        )
        for stream in draw(st.lists(st.sampled_from(streams), min_size=1, max_size=2, unique=True)):
            _subscribe(draw, declarer, *stream)
        declared = OutputFieldsDeclarer(name)
        bolt.declare_output_fields(declared)
        streams += [
            (name, stream.id, stream.fields, stream.direct) for stream in declared.streams.values()
        ]
    return DrawnTopology.of(builder.build())


def _subscribe(
    draw: st.DrawFn, bolt: BoltDeclarer, component: str, stream: str, fields: Fields, direct: bool
) -> None:
    if direct:
        bolt.direct_grouping(component, stream)
        return
    kind = draw(st.sampled_from(_CHOOSING if len(fields) else _KEYLESS))
    keys = []
    if issubclass(kind, KeyedGrouping):
        keys.append(draw(st.lists(st.sampled_from(fields.names), min_size=1, unique=True)))
    getattr(bolt, f"{kind.name}_grouping")(component, *keys, stream=stream)
