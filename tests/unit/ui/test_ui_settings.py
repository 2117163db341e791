"""Settings of the web UI: errors have one line, and access is never open by mistake."""

from pathlib import Path

import pytest

from kstorm.errors import ConfigError
from kstorm_ui.ui_settings import from_environment


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "page.example"])
def test_addresses_of_other_machines_need_a_login(host: str) -> None:
    """A token or a proxy's header. This machine's own addresses need neither."""
    with pytest.raises(ConfigError, match="set KSTORM_UI_TOKEN_FILE or KSTORM_UI_USER_HEADER"):
        from_environment({"KSTORM_UI_HOST": host})
    assert (
        from_environment({"KSTORM_UI_HOST": host, "KSTORM_UI_USER_HEADER": "X-User"}).host == host
    )
    assert from_environment({"KSTORM_UI_HOST": "127.0.0.1"}).host == "127.0.0.1"


@pytest.mark.parametrize("port", ["x", "-1", "70000"])
def test_a_port_is_a_number(port: str) -> None:
    with pytest.raises(ConfigError, match=f"KSTORM_UI_PORT is '{port}'"):
        from_environment({"KSTORM_UI_PORT": port})


def test_values_are_shown_locally_by_default() -> None:
    """Otherwise only if set. `false` hides them, and the logs, which may quote them."""
    here = {"KSTORM_UI_RUNS": ".kstorm/runs"}
    login = {"KSTORM_UI_HOST": "0.0.0.0", "KSTORM_UI_USER_HEADER": "X-User"}
    hidden = from_environment({**here, "KSTORM_UI_SHOW_VALUES": "false"})
    assert from_environment(here).shows_values
    assert not from_environment({**here, **login}).shows_values
    assert not from_environment({}).shows_values
    assert from_environment({"KSTORM_UI_SHOW_VALUES": "true"}).shows_values
    assert (hidden.shows_values, hidden.shows_logs) == (False, False)
    with pytest.raises(ConfigError, match="KSTORM_UI_SHOW_VALUES is 'yes': give true or false"):
        from_environment({"KSTORM_UI_SHOW_VALUES": "yes"})


def test_local_logs_are_shown_locally_by_default() -> None:
    """Otherwise only if set. `false` hides them everywhere."""
    here, login = (
        {"KSTORM_UI_RUNS": ".kstorm/runs"},
        {"KSTORM_UI_HOST": "0.0.0.0", "KSTORM_UI_USER_HEADER": "X-User"},
    )
    assert from_environment(here).shows_logs
    assert not from_environment({**here, **login}).shows_logs
    assert not from_environment({}).shows_logs
    assert from_environment({**login, "KSTORM_UI_LOGS": "true"}).shows_logs
    assert not from_environment({**here, "KSTORM_UI_LOGS": "false"}).shows_logs
    with pytest.raises(ConfigError, match="KSTORM_UI_LOGS is '1': give true or false"):
        from_environment({"KSTORM_UI_LOGS": "1"})


def test_token_is_read_from_a_file(tmp_path: Path) -> None:
    """It has 16 characters or more, without surrounding space."""
    file = tmp_path / "token"
    settings = from_environment({"KSTORM_UI_TOKEN_FILE": str(file)})
    with pytest.raises(ConfigError, match="cannot be read"):
        settings.token()
    file.write_text("short\n")
    with pytest.raises(ConfigError, match="shorter than 16 characters"):
        settings.token()
    file.write_text("a token of twenty-odd characters\n")
    assert settings.token() == "a token of twenty-odd characters"
    assert from_environment({}).token() == ""
