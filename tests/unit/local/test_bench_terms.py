"""The settings that the benchmark passes to a contestant."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from tests.bench.terms import Terms, from_environment


def test_terms_survive_the_environment() -> None:
    """The contestant reads the values that the benchmark sets."""
    terms = Terms("127.0.0.1:9092", "sentences", "counts", "run01", Path("/scratch"))
    assert from_environment({**terms.environment(), "HOME": "/root"}) == terms


def test_missing_variables_are_named() -> None:
    """A user who starts a contestant by hand needs their names."""
    with pytest.raises(ConfigError, match="PEER_OUT and PEER_RUN and PEER_DIR not set"):
        from_environment({"PEER_BOOTSTRAP": "a", "PEER_IN": "b", "PEER_OUT": ""})
