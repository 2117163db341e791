"""The base of `ShellBolt` and `ShellSpout`: the command and its declarations."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Self

from kstorm.errors import ConfigError
from kstorm.fitting import Rule, Text, checked
from kstorm.multilang.codecs import CODECS
from kstorm.multilang.handshake import sort_settings
from kstorm.topology import DEFAULT_STREAM, OutputFieldsDeclarer, StreamSpec
from kstorm.topology.component import Component

Outputs = Sequence[str] | Mapping[str, Sequence[str]]
Serializer = Literal["json", "msgpack"]

ABOVE_0: Final = Rule("a number of seconds above 0", lambda value: value > 0)
EXACTLY_ONCE_REFUSAL: Final = (
    "kstorm cannot undo what a program has kept in its memory: use at_least_once, or write it in "
    "Python as a kstorm bolt"
)


class Program(Component):
    """A component that a program runs."""

    def _describe(
        self,
        command: Sequence[str],
        outputs: Outputs,
        serializer: Serializer,
        env: Mapping[str, str] | None,
        cwd: str | None,
        timeout_secs: float,
    ) -> None:
        if isinstance(command, str) or not command or not all(command):
            raise ConfigError(
                f"command is {command!r}: it must be a list of a program and its arguments, such "
                "as ['python3', 'split.py']"
            )
        self.command = list(command)
        self.serializer, self.timeout_secs = serializer, timeout_secs
        self.codec = CODECS[serializer]
        self.env, self.cwd = dict(env or {}), cwd
        self._given: dict[str, Any] = {}
        self._declared: dict[str, StreamSpec] = {}
        self._measured: dict[str, float] = {}
        if isinstance(outputs, Mapping):
            for stream, fields in outputs.items():
                self.set_named_stream(stream, fields)
        elif outputs:
            self.set_named_stream(DEFAULT_STREAM, outputs)

    @checked()
    def set_named_stream(self, stream: Text, fields: Sequence[str], direct: bool = False) -> Self:
        """Declare an output stream. With `direct`, the program names the receiving task.

        Returns this object. Raises `TopologyError` when the topology is built, if a field is not a
        name.
        """
        if isinstance(fields, str):
            raise ConfigError(f"fields of the stream {stream!r} is {fields!r}: give a list")
        declarer = OutputFieldsDeclarer(type(self).__name__)
        declarer.declare_stream(stream, fields, direct=direct)
        self._declared |= declarer.streams
        return self

    @checked()
    def set_default_stream(self, fields: Sequence[str]) -> Self:
        """Declare the default stream. Returns this object."""
        return self.set_named_stream(DEFAULT_STREAM, fields)

    @checked()
    def add_component_config(self, name: Text, value: Any) -> Self:
        """Set a setting by Storm's or kstorm's name. The program finds it in its handshake.

        Returns this object.
        """
        self._given[name] = value
        return self

    @checked()
    def set_env(self, env: Mapping[str, str]) -> Self:
        """Set environment variables of the program, in addition to those of this process.

        Returns this object.
        """
        self.env = dict(env)
        return self

    def declare_output_fields(self, declarer: OutputFieldsDeclarer) -> None:
        for each in self._declared.values():
            declarer.declare_stream(each.id, each.fields, direct=each.direct)

    def get_component_configuration(self) -> dict[str, Any] | None:
        found = sort_settings(self._given)
        return {**found.known, **found.own}

    def refuses_exactly_once(self) -> str:
        return EXACTLY_ONCE_REFUSAL

    def metrics(self) -> Mapping[str, float]:
        return self._measured

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables of the program."""
        return {**os.environ, **self.env}
