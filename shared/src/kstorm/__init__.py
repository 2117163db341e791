"""Storm's guaranteed message processing for Python, on Kafka and Kubernetes.

`from kstorm import …` provides the names that a first topology needs. `docs/reference/public.md` lists all
public modules.
"""

TYPE_CHECKING = False  # defined here, because importing typing takes milliseconds

if TYPE_CHECKING:
    from kstorm.kafka import (
        KafkaBolt,
        KafkaHosts,
        KafkaSpout,
        SchemeAsMultiScheme,
        SpoutConfig,
        StringScheme,
    )
    from kstorm.topology import (
        AT_LEAST_ONCE,
        EXACTLY_ONCE,
        BasicBolt,
        BasicOutputCollector,
        Bolt,
        Config,
        Fields,
        KeyValueState,
        OutputCollector,
        OutputFieldsDeclarer,
        Spout,
        SpoutOutputCollector,
        StatefulBasicBolt,
        StatefulBolt,
        Topology,
        TopologyBuilder,
        TopologyContext,
        Tuple,
    )

__all__ = [
    "AT_LEAST_ONCE",
    "EXACTLY_ONCE",
    "BasicBolt",
    "BasicOutputCollector",
    "Bolt",
    "Config",
    "Fields",
    "KafkaBolt",
    "KafkaHosts",
    "KafkaSpout",
    "KeyValueState",
    "OutputCollector",
    "OutputFieldsDeclarer",
    "SchemeAsMultiScheme",
    "Spout",
    "SpoutConfig",
    "SpoutOutputCollector",
    "StatefulBasicBolt",
    "StatefulBolt",
    "StringScheme",
    "Topology",
    "TopologyBuilder",
    "TopologyContext",
    "Tuple",
]

_OF_KAFKA = frozenset(
    {"KafkaBolt", "KafkaHosts", "KafkaSpout", "SchemeAsMultiScheme", "SpoutConfig", "StringScheme"}
)


# Names are imported on first use, because the set-up and the development images import this package
# without its dependencies.
def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found: object = getattr(
        import_module("kstorm.kafka" if name in _OF_KAFKA else "kstorm.topology"), name
    )
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
