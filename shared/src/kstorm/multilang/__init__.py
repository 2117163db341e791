"""Programs in any language as spouts and bolts, by Storm's multilang protocol.

    builder.set_bolt("split", ShellBolt(["node", "split.js"], ["word"]), 2).shuffle_grouping("lines")

See docs/guides/multilang.md.
"""

from kstorm.multilang.bolt import ShellBolt
from kstorm.multilang.shell import ShellError
from kstorm.multilang.spout import ShellSpout

__all__ = ["ShellBolt", "ShellError", "ShellSpout"]
