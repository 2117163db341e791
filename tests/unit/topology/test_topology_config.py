"""Settings: types, ranges, overrides."""

import dataclasses
import inspect
from typing import Any

import pytest

from kstorm.errors import ConfigError
from kstorm.topology import Config


def test_defaults_are_storms_where_storm_has_one() -> None:
    """Thirty seconds, one acker, no ticks; pending is finite, unlike Storm's."""
    config = Config()
    assert config.topology_message_timeout_secs == 30
    assert config.topology_acker_executors == 1
    assert config.topology_tick_tuple_freq_secs is None
    assert config.topology_max_spout_pending == 2000


def test_every_field_has_its_docstring() -> None:
    """A setting without a word on its unit and default is no setting."""
    source = inspect.getsource(Config)
    for field in dataclasses.fields(Config):
        declaration = source.index(f"\n    {field.name}: ")
        following = source[source.index("\n", declaration + 1) + 1 :]
        assert following.lstrip().startswith('"""'), field.name


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(Config)])
@pytest.mark.parametrize("value", ["1", b"1", [1], float("nan"), float("inf")])
def test_values_of_the_wrong_type(field: str, value: Any) -> None:
    """A string where a number belongs, or no number at all, is refused with the field's name."""
    with pytest.raises(ConfigError, match=field):
        Config(**{field: value})


def test_a_bool_is_no_number() -> None:
    """Python thinks so; a settings file that says `true` for a count does not mean 1."""
    with pytest.raises(ConfigError, match="topology_acker_tasks is True: it must be int"):
        Config(topology_acker_tasks=True)


def test_a_number_is_no_bool() -> None:
    """And the other way round."""
    with pytest.raises(ConfigError, match="topology_debug is 1: it must be bool"):
        Config(topology_debug=1)  # type: ignore[arg-type]


@pytest.mark.parametrize("field", [f.name for f in dataclasses.fields(Config) if f.name != "topology_debug"])
def test_nothing_is_negative(field: str) -> None:
    """There is no count and no time below zero."""
    with pytest.raises(ConfigError, match=f"{field} is -1"):
        Config().override(**{field: -1})


def test_what_may_be_zero() -> None:
    """No ackers and no rest between polls are choices; a timeout of zero is a mistake."""
    Config(topology_acker_executors=0, topology_sleep_spout_wait_strategy_time_ms=0)
    with pytest.raises(ConfigError, match="topology_message_timeout_secs is 0: it must be above 0"):
        Config(topology_message_timeout_secs=0)


def test_acker_tasks() -> None:
    """None without ackers; never fewer than acker processes."""
    assert Config(topology_acker_executors=0).acker_tasks == 0
    assert Config().acker_tasks == 4
    assert Config(topology_acker_executors=6).acker_tasks == 6


def test_overrides() -> None:
    """A copy with changes, checked as the original was."""
    config = Config(topology_debug=True)
    changed = config.override(topology_max_spout_pending=5)
    assert (changed.topology_debug, changed.topology_max_spout_pending) == (True, 5)
    assert config.topology_max_spout_pending == 2000
    with pytest.raises(ConfigError, match=r"no setting 'max_pending': the settings are .*topology_max_spout_pending"):
        config.override(max_pending=5)
    with pytest.raises(ConfigError, match="topology_max_spout_pending is 0"):
        config.override(topology_max_spout_pending=0)
