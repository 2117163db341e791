"""The web UI of a local run."""

import pytest

from kstorm.dev.web_ui import check_settings
from kstorm.errors import ConfigError


def test_invalid_setting_is_reported_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command reports it before servers start, because users do not read the log of a process
    that does not respond."""
    monkeypatch.setenv("KSTORM_UI_ACTIONS", "reply")
    with pytest.raises(ConfigError, match="KSTORM_UI_ACTIONS has 'reply'"):
        check_settings(page=True)
    check_settings(page=False)
    monkeypatch.setenv("KSTORM_LOG_LEVEL", "loud")
    with pytest.raises(ConfigError, match="KSTORM_LOG_LEVEL is 'LOUD'"):
        check_settings(page=False)
