"""streamparse's components that are not Python classes: programs, and Java classes."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kstorm.errors import TopologyError
from kstorm.fitting import Text, checked
from kstorm.multilang import ShellBolt as Program
from kstorm.multilang import ShellSpout as ProgramSpout
from kstorm.streamparse.component import Component
from kstorm.streamparse.specs import ComponentSpec, Inputs, JavaClass, inputs_of, spec_of
from kstorm.streamparse.streams import streams_of


class JavaBolt(Component):
    """A bolt in Java. A topology with one is refused when it is built."""

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: Text | None = None,
        serialized_java: bytes | None = None,
        full_class_name: Text | None = None,
        args_list: Sequence[Any] | None = None,
        inputs: Inputs = None,
        par: int | Mapping[str, int] | None = 1,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a bolt in Java by its class."""
        return _java("bolt", cls.__name__, name, full_class_name, inputs, par, config, outputs)


class JavaSpout(Component):
    """A spout in Java. A topology with one is refused when it is built."""

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: Text | None = None,
        serialized_java: bytes | None = None,
        full_class_name: Text | None = None,
        args_list: Sequence[Any] | None = None,
        par: int | Mapping[str, int] | None = 1,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a spout in Java by its class."""
        return _java("spout", cls.__name__, name, full_class_name, None, par, config, outputs)


class ShellBolt(Component):
    """A bolt that is a program, by Storm's multilang protocol."""

    @classmethod
    @checked("inputs")
    def spec(
        cls,
        name: Text | None = None,
        command: Text | None = None,
        script: str | None = None,
        inputs: Inputs = None,
        par: int | Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a program. `script` is its arguments, separated by spaces.

        It becomes a `kstorm.multilang.ShellBolt`. The setting `topology.subprocess.timeout.secs` is
        its `timeout_secs`.
        """
        return _program("bolt", cls.__name__, name, command, script, inputs, par, config, outputs)


class ShellSpout(Component):
    """A spout that is a program, by Storm's multilang protocol."""

    @classmethod
    @checked()
    def spec(
        cls,
        name: Text | None = None,
        command: Text | None = None,
        script: str | None = None,
        par: int | Mapping[str, int] | None = None,
        config: Mapping[str, Any] | None = None,
        outputs: Sequence[Any] | None = None,
    ) -> ComponentSpec:
        """Describe a program, as `ShellBolt.spec` does. It becomes a `kstorm.multilang.ShellSpout`."""
        return _program("spout", cls.__name__, name, command, script, None, par, config, outputs)


def _program(
    kind: Literal["spout", "bolt"],
    title: str,
    name: str | None,
    command: str | None,
    script: str | None,
    inputs: Inputs,
    par: int | Mapping[str, int] | None,
    config: Mapping[str, Any] | None,
    outputs: Sequence[Any] | None,
) -> ComponentSpec:
    inputs_of(title, inputs)
    if not command:
        raise TopologyError(f"command of a {title} is {command!r}: give the name of a program")
    settings = dict(config or {})
    timeout = settings.pop("topology.subprocess.timeout.secs", None)
    runs: Program | ProgramSpout = (Program if kind == "bolt" else ProgramSpout)(
        [*shlex.split(command), *shlex.split(script or "")],
        **({} if timeout is None else {"timeout_secs": timeout}),
    )
    for stream in streams_of(title, outputs).values():
        runs.set_named_stream(stream.name, stream.fields, stream.direct)
    for setting, value in settings.items():
        runs.add_component_config(setting, value)
    return spec_of(
        kind,
        runs,
        shlex.join(runs.command),
        outputs=outputs,
        name=name,
        inputs=inputs,
        par=par,
        config=settings,
    )


def _java(
    kind: Literal["spout", "bolt"],
    title: str,
    name: str | None,
    class_name: str | None,
    inputs: Inputs,
    par: int | Mapping[str, int] | None,
    config: Mapping[str, Any] | None,
    outputs: Sequence[Any] | None,
) -> ComponentSpec:
    return spec_of(
        kind,
        JavaClass(class_name or "of serialized bytes"),
        class_name or title,
        outputs=outputs,
        name=name,
        inputs=inputs,
        par=par,
        config=config,
    )


def refuse_java(id: str, spec: ComponentSpec) -> TopologyError:
    """Return the error for a component in Java."""
    if spec.kind == "spout":
        remedy = (
            "read its topic with a kstorm spout: kstorm_spec(KafkaSpout(…)) of "
            "kstorm.streamparse; or run it as a program: ShellSpout"
        )
    else:
        remedy = "write it in Python, or run it as a program that speaks multilang: ShellBolt"
    return TopologyError(
        f"the {spec.kind} {id!r} is the Java class {spec.runs.name}, and kstorm has no Java "
        f"virtual machine: {remedy}"
    )
