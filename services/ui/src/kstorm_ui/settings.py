"""What the page needs to know, from the environment and the command's options."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kstorm.errors import ConfigError
from kstorm.runtime.own_machine import is_own
from kstorm.runtime.service.settings import Settings, with_or_without_topology

DEFAULT_PORT: Final = 8480
ACTIONS: Final = ("activate", "deactivate", "drain", "scale", "replay", "edit", "discard")
"""What the page can do, if it may."""


@dataclass(frozen=True, kw_only=True)
class UiSettings:
    """Every field is read from `KSTORM_UI_` + its name in capitals."""

    host: str = "127.0.0.1"
    """The address to listen at. Anything but this machine's own needs `token_file` or `user_header`."""
    port: int = DEFAULT_PORT
    """The port to listen at; 0: any that is free."""
    runs: Path | None = None
    """The folder of a run of this machine, or of several. None: Kubernetes is asked."""
    namespace: str | None = None
    """On Kubernetes; None: the pod's own, or the context's."""
    context: str | None = None
    """Of the kubeconfig; None: its current one."""
    token_file: Path | None = None
    """A file with a token of 16 characters or more, which whoever wants to see the page has to give. None: none."""
    user_header: str = ""
    """A header with the user's name that a proxy in front sets, and takes away from requests that bring it: a request without it is
    refused. Empty: none."""
    show_values: bool = False
    """Whether pages of messages show what tuples hold, and the texts of errors, which may quote it. In the environment `true` or
    `false`."""

    actions: frozenset[str] = frozenset()
    """What the page may do, of `ACTIONS`; in the environment commas between. None: it only shows. `edit` needs `show_values`."""
    logs: bool | None = None
    """Whether it shows the logs of processes, which may quote messages. None: of this machine's, where nobody else reaches it."""

    @property
    def shows_logs(self) -> bool:
        """As `logs` says."""
        return self.runs is not None and is_own(self.host) if self.logs is None else self.logs

    def token(self) -> str:
        """The token; empty if none is asked for. Raises `ConfigError` if the file has none that will do."""
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
                f"KSTORM_UI_TOKEN_FILE: the token in {self.token_file} is shorter than 16 characters"
            )
        return token


def from_environment(environ: Mapping[str, str] = os.environ) -> UiSettings:
    """Reads them; raises `ConfigError` naming the variable, its value and the remedy."""
    values: dict[str, object] = {}
    for name in UiSettings.__dataclass_fields__:
        text = environ.get(f"KSTORM_UI_{name.upper()}")
        if not text:
            continue
        if name == "port":
            if not (text.isdigit() and int(text) < 65_536):
                raise ConfigError(
                    f"KSTORM_UI_PORT is {text!r}: give a port, such as {DEFAULT_PORT}, or 0 for any"
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
    if "edit" in settings.actions and not settings.show_values:
        raise ConfigError(
            "KSTORM_UI_ACTIONS has edit, whose form shows what a message holds: set KSTORM_UI_SHOW_VALUES=true, or leave it out"
        )
    if not is_own(settings.host) and not settings.token_file and not settings.user_header:
        raise ConfigError(
            f"KSTORM_UI_HOST is {settings.host!r}, where others reach the page: set KSTORM_UI_TOKEN_FILE or KSTORM_UI_USER_HEADER"
        )
    return settings


def _actions(text: str) -> frozenset[str]:
    found = frozenset(name.strip() for name in text.split(","))
    unknown = ", ".join(sorted(found - {*ACTIONS}))
    if unknown:
        raise ConfigError(
            f"KSTORM_UI_ACTIONS has {unknown!r}: give some of {','.join(ACTIONS)}, with commas between"
        )
    return found


def settings_of(bootstrap: str, zookeeper: str) -> Settings | None:
    """How to reach the Kafka and the ZooKeeper of a topology: those of a run of this machine, else the environment's, which has the
    logins too. None if nobody says where Kafka is."""
    if bootstrap:
        return Settings(topology="", bootstrap_servers=bootstrap, zookeeper=zookeeper)
    return (
        with_or_without_topology(os.environ) if "KSTORM_BOOTSTRAP_SERVERS" in os.environ else None
    )
