"""Run a streamparse or pystorm project unchanged, and mix its components with kstorm's.

    from streamparse import Bolt, Grouping, Spout, Topology

    class WordCount(Topology):
        word_spout = WordSpout.spec()
        count_bolt = WordCountBolt.spec(inputs={word_spout: Grouping.fields("word")}, par=2)

`kstorm dev topologies/wordcount.py:WordCount` runs it. From the import of this module on, `import
streamparse` and `import pystorm` find it instead of installed packages. kstorm imports it before it
loads a topology. A test imports it first. See docs/guides/from-streamparse.md.
"""

from kstorm.stand_ins import install as _install
from kstorm.streamparse.bolts import BatchingBolt, Bolt, TicklessBatchingBolt
from kstorm.streamparse.component import Component, StormHandler, Tuple
from kstorm.streamparse.foreign import JavaBolt, JavaSpout, ShellBolt, ShellSpout
from kstorm.streamparse.hosts import StreamparseBolt, StreamparseSpout
from kstorm.streamparse.specs import ComponentSpec, kstorm_spec
from kstorm.streamparse.spouts import ReliableSpout, Spout
from kstorm.streamparse.streams import Grouping, Stream
from kstorm.streamparse.topology import Topology

__all__ = [
    "BatchingBolt",
    "Bolt",
    "Component",
    "ComponentSpec",
    "Grouping",
    "JavaBolt",
    "JavaSpout",
    "ReliableSpout",
    "ShellBolt",
    "ShellSpout",
    "Spout",
    "StormHandler",
    "Stream",
    "StreamparseBolt",
    "StreamparseSpout",
    "TicklessBatchingBolt",
    "Topology",
    "Tuple",
    "kstorm_spec",
]

_install()
