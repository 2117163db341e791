"""Topologies in YAML (Storm's Flux): `load_file(Path("topology.yaml"))`."""

from kstorm.flux.load import build, load_file, read
from kstorm.flux.schema import schema
from kstorm.flux.wiring import Wiring

__all__ = ["Wiring", "build", "load_file", "read", "schema"]
