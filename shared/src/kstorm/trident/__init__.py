"""Storm's Trident: streams with aggregations and states, compiled to spouts and bolts with
exactly-once processing."""

from kstorm.trident.aggregators import (
    Aggregator,
    Average,
    CombinerAggregator,
    Count,
    First,
    Max,
    Min,
    ReducerAggregator,
    Sum,
)
from kstorm.trident.assemblies import FirstN
from kstorm.trident.backends import BackingMap, Owner, SqlMap
from kstorm.trident.custom_state import State, StateFactory
from kstorm.trident.distinct import ApproximateDistinct
from kstorm.trident.external import MapFactory, NonTransactionalMap, OpaqueMap, TransactionalMap
from kstorm.trident.join import JoinOutFieldsMode, JoinType
from kstorm.trident.operations import (
    Debug,
    Equals,
    Filter,
    FilterNull,
    Function,
    Negate,
    Operation,
    TridentCollector,
)
from kstorm.trident.redis_map import RedisMap
from kstorm.trident.spouts import (
    OpaqueTridentKafkaSpout,
    TransactionalTridentKafkaSpout,
    TridentKafkaConfig,
)
from kstorm.trident.state import (
    KstormState,
    MapGet,
    MapState,
    QueryFunction,
    SnapshotGet,
    Snapshottable,
    StateUpdater,
    TupleCollectionGet,
    kstorm_state,
)
from kstorm.trident.stream import Assembly, Chain, GroupedStream, Stream, TridentState
from kstorm.trident.topology import TridentTopology
from kstorm.trident.tuple import TridentTuple
from kstorm.trident.windows import Sessions, Window

__all__ = [
    "Aggregator",
    "ApproximateDistinct",
    "Assembly",
    "Average",
    "BackingMap",
    "Chain",
    "CombinerAggregator",
    "Count",
    "Debug",
    "Equals",
    "Filter",
    "FilterNull",
    "First",
    "FirstN",
    "Function",
    "GroupedStream",
    "JoinOutFieldsMode",
    "JoinType",
    "KstormState",
    "MapFactory",
    "MapGet",
    "MapState",
    "Max",
    "Min",
    "Negate",
    "NonTransactionalMap",
    "OpaqueMap",
    "OpaqueTridentKafkaSpout",
    "Operation",
    "Owner",
    "QueryFunction",
    "RedisMap",
    "ReducerAggregator",
    "Sessions",
    "SnapshotGet",
    "Snapshottable",
    "SqlMap",
    "State",
    "StateFactory",
    "StateUpdater",
    "Stream",
    "Sum",
    "TransactionalMap",
    "TransactionalTridentKafkaSpout",
    "TridentCollector",
    "TridentKafkaConfig",
    "TridentState",
    "TridentTopology",
    "TridentTuple",
    "TupleCollectionGet",
    "Window",
    "kstorm_state",
]
