"""The base of streamparse's spouts and bolts: logging, metrics, emits and errors.

The classes have the attributes and methods of streamparse 5 and pystorm 3. They hold no protocol:
`kstorm.streamparse.hosts` connects an object of such a class to a task.
"""

import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple, NoReturn, Protocol

from kstorm.errors import EmitError, TopologyError
from kstorm.fitting import checked
from kstorm.streamparse.streams import Stream

_LEVELS: Final = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}


class Tuple(NamedTuple):
    """A tuple as streamparse's bolts receive it."""

    id: str
    """Text that is unique in its task."""
    component: str
    stream: str
    task: int
    """Topology-wide ID of the task that emitted it. -1 for a tick tuple."""
    values: Any
    """A tuple with the fields of the stream as names: `tup.values.word`, `tup.values[0]`."""


class Host(Protocol):
    """The task that runs a component."""

    def _emit(
        self,
        values: Sequence[Any],
        stream: str | None,
        anchors: Sequence[str],
        message_id: Any,
        task: int | None,
    ) -> Sequence[int]: ...

    def _ack(self, id: str) -> None: ...

    def _fail(self, id: str) -> None: ...

    def _report(self, error: BaseException) -> None: ...

    def _measure(self, name: str, value: Any) -> None: ...


class Component:
    """Base class of streamparse's spouts and bolts. Each task creates its own object."""

    outputs: ClassVar[Sequence[str | Stream] | None] = None
    """Field names of the default stream, or a list of `Stream`. None declares no stream."""
    par: ClassVar[int | Mapping[str, int] | None] = 1
    """Number of processes and tasks, unless `spec` gives another one."""
    config: ClassVar[Mapping[str, Any] | None] = None
    """Settings of this component, by Storm's or kstorm's names."""
    exit_on_exception: ClassVar[bool] = True
    """After an exception, kstorm discards the object and creates a new one, as streamparse starts a
    new process. With False the object stays."""

    logger: logging.Logger
    """The component's logger. Its records go to the log of the process."""
    topology_name: str | None = None
    task_id: int | None = None
    component_name: str | None = None
    debug: bool | None = None
    storm_conf: Mapping[str, Any] | None = None
    context: Mapping[str, Any] | None = None
    _host: Host | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Streams and serializers of pystorm's constructor are accepted and have no effect."""
        self.pid = os.getpid()

    def initialize(self, storm_conf: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        """Called once before anything else.

        `storm_conf` are the settings by Storm's names, and the component's own. `context` is the
        task's place in the topology, as in Storm's multilang protocol.
        """

    def log(self, message: str, level: str | None = None) -> None:
        """Log a message. `level` is trace, debug, info (default), warn, error or critical."""
        self.logger.log(_LEVELS.get(level or "info", logging.INFO), "%s", message)

    def raise_exception(self, exception: BaseException, tup: Any = None) -> None:
        """Report an error to operators. This fails no tuple."""
        self._task._report(exception)

    def report_metric(self, name: str, value: Any) -> None:
        """Show a number at `/metrics` as `kstorm_own_NAME`, or the numbers of a dict by their keys.

        The last value counts. Other values are dropped, with a warning.
        """
        self._task._measure(name, value)

    @staticmethod
    def is_heartbeat(tup: Tuple) -> bool:
        """Return True for a heartbeat of Storm's protocol. kstorm sends none to these classes."""
        return tup.task == -1 and tup.stream == "__heartbeat"

    def run(self) -> NoReturn:
        """Refuse to be a process of its own. Raises `TopologyError`."""
        raise TopologyError(
            f"{type(self).__name__}.run() needs the real package: give the class to a Topology. Or "
            "run the script by a kstorm.multilang.ShellBolt, with a Python that has the package"
        )

    @classmethod
    @checked()
    def spec(cls, *args: Any, **kwargs: Any) -> Any:
        """Refuse a class that is neither a spout nor a bolt. Raises `TopologyError`."""
        raise TopologyError(
            f"{cls.__name__} is neither a Spout nor a Bolt: derive it from one of them"
        )

    # Called by the host.

    def _setup(self, host: Host, conf: Mapping[str, Any], context: Mapping[str, Any]) -> None:
        self._host = host
        self.storm_conf, self.context = conf, context
        self.topology_name, self.task_id = conf["topology.name"], context["taskid"]
        self.component_name, self.debug = context["componentid"], bool(conf.get("topology.debug"))
        self.logger = logging.getLogger(f"pystorm.component.{self.component_name}")
        level = "debug" if self.debug else str(conf.get("pystorm.log.level", "info"))
        self.logger.setLevel(_LEVELS.get(level, logging.INFO))

    @property
    def _task(self) -> Host:
        if self._host is None:
            raise EmitError(
                f"{type(self).__name__} is not part of a task yet: emit, ack and fail from "
                "initialize on, or test it with kstorm.testing.BoltTester(StreamparseBolt(…))"
            )
        return self._host

    def _send(
        self,
        values: Any,
        stream: str | None,
        anchors: Sequence[str],
        tup_id: Any,
        direct_task: int | None,
        need_task_ids: bool,
    ) -> list[int] | None:
        if not isinstance(values, list | tuple):
            raise EmitError(
                f"{type(self).__name__} emits a {type(values).__name__}: emit a list or a tuple"
            )
        tasks = self._task._emit(values, stream, anchors, tup_id, direct_task)
        return list(tasks) if need_task_ids else None


class StormHandler(logging.StreamHandler[Any]):
    """A handler of log records, as pystorm has it. The records go to the log of the process."""

    def __init__(self, serializer: Any = None) -> None:
        """`serializer` has no effect."""
        super().__init__()
