"""The engine of a process: what a spout, bolt or acker process does, and when, without doing any of it.

An engine hears what happened (*events*, its methods: tasks were assigned, records came, sends were confirmed, a checkpoint was
committed, time passed) and returns what is to be done (*effects*, values: send, write a checkpoint, run a step of the user's
code, let go of a task). It has no I/O, no clock and no event loop. Two drivers carry its effects out: `kstorm.runtime.service` with
librdkafka, RocksDB and Faust, and `kstorm.testing` with logs in memory. So what the simulation proves is what the services run.
"""

from kstorm.core.engine.acker import AckerEngine
from kstorm.core.engine.bolt import BoltEngine
from kstorm.core.engine.effects import Effect
from kstorm.core.engine.engine import Engine
from kstorm.core.engine.exact_bolt import ExactBoltEngine
from kstorm.core.engine.exact_spout import ExactSpoutEngine
from kstorm.core.engine.slot import Record, Slot
from kstorm.core.engine.spout import SpoutEngine
from kstorm.core.engine.units import Progress, Unit

__all__ = [
    "AckerEngine",
    "BoltEngine",
    "Effect",
    "Engine",
    "ExactBoltEngine",
    "ExactSpoutEngine",
    "Progress",
    "Record",
    "Slot",
    "SpoutEngine",
    "Unit",
]
