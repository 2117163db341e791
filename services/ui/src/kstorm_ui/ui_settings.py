"""Settings of the web UI, from the environment and the command's options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError
from kstorm.runtime.base.loopback import is_loopback
from kstorm.runtime.base.settings import Settings, with_or_without_topology

DEFAULT_PORT: Final = 8480
ACTIONS: Final = ("activate", "deactivate", "drain", "scale", "replay", "edit", "discard")
"""Actions that can be allowed."""


@dataclass(frozen=True, kw_only=True)
class UiSettings:
    """Settings of the web UI. Every field is read from `KSTORM_UI_` and its name in capitals."""

    host: str = "127.0.0.1"
    """Address to listen on. Addresses other than this machine's own need `token_file` or
    `user_header`."""
    port: int = DEFAULT_PORT
    """Port to listen on. 0: any free one."""
    runs: Path | None = None
    """Folder of one local run, or of several. None: show topologies on Kubernetes."""
    namespace: str | None = None
    """Kubernetes namespace. None: the pod's own, or the context's."""
    context: str | None = None
    """Context of the kubeconfig. None: its current one."""
    token_file: Path | None = None
    """File with a token of 16 characters or more, which viewers must give. None: no token."""
    user_header: str = ""
    """Header in which a proxy passes the user's name. Empty: no proxy.

    The proxy must remove the header from incoming requests. A request without it is refused.
    """
    show_values: bool | None = None
    """Show keys and values of messages, tuples and state, and error texts, which may quote them.

    All pages obey this setting. None: only values of this machine's topologies, if only this
    machine can connect to the web UI. In the environment `true` or `false`.
    """

    actions: frozenset[str] = frozenset()
    """Allowed actions, out of `ACTIONS`. Comma-separated in the environment. Empty: read-only.
    `edit` needs `show_values`."""
    logs: bool | None = None
    """Show the logs of processes, which may quote messages. None: the logs of this machine, if
    values are shown."""

    @property
    def shows_values(self) -> bool:
        """True if keys and values are shown."""
        if self.show_values is None:
            return self.runs is not None and is_loopback(self.host)
        return self.show_values

    @property
    def shows_logs(self) -> bool:
        """True if logs are shown."""
        return self.runs is not None and self.shows_values if self.logs is None else self.logs

    def token(self) -> str:
        """Return the token, or "" if none is required. Raises `ConfigError` if the file has no
        valid token."""
        if self.token_file is None:
            return ""
        try:
            token = self.token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"KSTORM_UI_TOKEN_FILE: {self.token_file} cannot be read ({error})"
            ) from None
        if len(token) < 16:
            raise ConfigError(
                f"KSTORM_UI_TOKEN_FILE: the token in {self.token_file} is shorter than "
                "16 characters"
            )
        return token


def from_environment(environ: Mapping[str, str] = os.environ) -> UiSettings:
    """Read the settings. Raises `ConfigError`, naming the variable, its value and the remedy."""
    values: dict[str, object] = {}
    for name in UiSettings.__dataclass_fields__:
        text = environ.get(f"KSTORM_UI_{name.upper()}")
        if not text:
            continue
        if name == "port":
            if not (text.isdigit() and int(text) < 65_536):
                raise ConfigError(
                    f"KSTORM_UI_PORT is {text!r}: "
                    f"give a port, such as {DEFAULT_PORT}, or 0 for any free one"
                )
            values[name] = int(text)
        elif name in ("show_values", "logs"):
            if text not in ("true", "false"):
                raise ConfigError(f"KSTORM_UI_{name.upper()} is {text!r}: give true or false")
            values[name] = text == "true"
        elif name == "actions":
            values[name] = _actions(text)
        else:
            values[name] = Path(text) if name in ("runs", "token_file") else text
    settings = UiSettings(**values)  # type: ignore[arg-type]
    if "edit" in settings.actions and not settings.shows_values:
        raise ConfigError(
            "KSTORM_UI_ACTIONS has edit, whose form shows a message's value: "
            "set KSTORM_UI_SHOW_VALUES=true, or leave edit out"
        )
    if not is_loopback(settings.host) and not settings.token_file and not settings.user_header:
        raise ConfigError(
            f"KSTORM_UI_HOST is {settings.host!r}, so other machines can reach the web UI: "
            "set KSTORM_UI_TOKEN_FILE or KSTORM_UI_USER_HEADER"
        )
    return settings


def _actions(text: str) -> frozenset[str]:
    found = frozenset(name.strip() for name in text.split(","))
    unknown = ", ".join(sorted(found - {*ACTIONS}))
    if unknown:
        raise ConfigError(
            f"KSTORM_UI_ACTIONS has {unknown!r}: "
            f"choose from {','.join(ACTIONS)}, separated by commas"
        )
    return found


def settings_of(bootstrap: str, zookeeper: str) -> Settings | None:
    """Return how to reach a topology's Kafka and ZooKeeper, or None if Kafka's address is not
    known.

    Addresses come from the local run, otherwise from the environment, which also has the
    credentials.
    """
    if bootstrap:
        return Settings(topology="", bootstrap_servers=bootstrap, zookeeper=zookeeper)
    return (
        with_or_without_topology(os.environ) if "KSTORM_BOOTSTRAP_SERVERS" in os.environ else None
    )
