"""Engines: the logic of a spout, bolt or acker process, without I/O.

An engine receives *events* through its methods: tasks were assigned, records arrived, sends were
confirmed, a checkpoint was committed, time passed. It returns *effects* as values: send, write a
checkpoint, run a step of user code, release a task. It has no I/O, no clock and no event loop. Two
drivers carry out its effects: `kstorm.runtime.service` with librdkafka, RocksDB and Faust, and
`kstorm.testing` with logs in memory. So the simulation tests the same code that the services run.
"""

from kstorm.core.engine.acker_engine import AckerEngine
from kstorm.core.engine.bolt_engine import BoltEngine
from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Engine
from kstorm.core.engine.exact_bolt import ExactBoltEngine
from kstorm.core.engine.exact_spout import ExactSpoutEngine
from kstorm.core.engine.spout_engine import SpoutEngine
from kstorm.core.engine.tenure import InputRecord, TaskTenure
from kstorm.core.engine.units import InputProgress, Unit

__all__ = [
    "AckerEngine",
    "BoltEngine",
    "Effect",
    "Engine",
    "ExactBoltEngine",
    "ExactSpoutEngine",
    "InputProgress",
    "InputRecord",
    "SpoutEngine",
    "TaskTenure",
    "Unit",
]
