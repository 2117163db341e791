"""Shared fixtures for the tests of `tools`: those of `kstorm.dev`, which the tools are built on."""

from tests.unit.dev.conftest import cache, eventually

__all__ = ["cache", "eventually"]
