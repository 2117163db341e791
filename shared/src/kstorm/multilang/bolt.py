"""`ShellBolt`: a bolt in any language."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Annotated, Any, Final

from kstorm.errors import EmitError
from kstorm.fitting import Positive, Text, checked
from kstorm.multilang.program import ABOVE_0, Outputs, Program, Serializer
from kstorm.multilang.shell import Shell, ShellError
from kstorm.topology import (
    DEFAULT_STREAM,
    Bolt,
    Config,
    OutputCollector,
    TopologyContext,
    Tuple,
)

_BEAT_SECS: Final = 1.0
_HEARTBEAT: Final = "__heartbeat"


class ShellBolt(Program, Bolt):
    """Runs a program that speaks Storm's multilang protocol, one child process per task.

    The program receives tuples on its standard input. It emits, acks and fails on its standard
    output, in its own time. If it ends, hangs or writes anything else, its unfinished tuples fail
    and it is started again.
    """

    @checked()
    def __init__(
        self,
        command: Sequence[Text],
        outputs: Outputs = (),
        *,
        serializer: Serializer = "json",
        env: Mapping[str, str] | None = None,
        cwd: Text | None = None,
        timeout_secs: Annotated[float, ABOVE_0] = 30.0,
        max_pending: Positive = 100,
    ) -> None:
        """`command` is the program and its arguments. `outputs` are the fields of its default
        stream, or fields by stream.

        `serializer` is `json` as in Storm, or `msgpack` as in pystorm. `env` adds environment
        variables. `cwd` is the program's folder, by default that of this process. A program that
        does not answer a heartbeat within `timeout_secs` is killed. The bolt accepts no further
        tuples while `max_pending` tuples are not written to the program. Raises `ArgumentError` for
        values of other types.
        """
        self._describe(command, outputs, serializer, env, cwd, timeout_secs)
        self.max_pending = max_pending
        self._held: dict[str, Tuple] = {}
        self._ids = count(1)
        self._timer: asyncio.TimerHandle | None = None

    def prepare(self, config: Config, context: TopologyContext, collector: OutputCollector) -> None:
        self.config, self.context, self.collector = config, context, collector
        self._shell = Shell(self, self, self._measured, config, context)
        self._shell.start()
        if not self._shell.blocking:
            self._beat_later()

    async def execute(self, tuple: Tuple) -> None:
        shell = self._shell
        await shell.ready()
        id = str(next(self._ids))
        shell.send(
            {
                "id": id,
                "comp": tuple.source_component,
                "stream": tuple.source_stream,
                "task": -1 if tuple.is_tick else tuple.source_task,
                "tuple": list(tuple.values),
            }
        )
        self._held[id] = tuple
        if shell.blocking:
            await self._answer()
        elif shell.unwritten >= self.max_pending:
            await shell.until(
                lambda: shell.unwritten <= self.max_pending // 2, "read its standard input"
            )

    async def cleanup(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        before = self._shell.syncs
        if not self._shell.blocking and self._held:
            self._beat()
            await self._shell.settle(lambda: self._shell.syncs > before or not self._held)
        await self._shell.close()

    def problem(self) -> Exception | None:
        return self._shell.trouble

    # Heartbeats.

    def _beat(self) -> None:
        self._shell.send(
            {
                "id": f"beat-{next(self._ids)}",
                "comp": None,
                "stream": _HEARTBEAT,
                "task": -1,
                "tuple": [],
            }
        )

    async def _answer(self) -> None:
        """Wait until the child has handled everything so far.

        After an error, pystorm sends one more `sync`, often before it ends.
        """
        before, errors = self._shell.syncs, self._shell.errors
        self._beat()
        done = await self._shell.until(lambda: self._shell.syncs > before, "answer a heartbeat")
        if done and self._shell.errors > errors:
            await self._answer()

    def _beat_later(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_BEAT_SECS, self._look)

    def _look(self) -> None:
        """Send a heartbeat each second. End a child that has not answered one for too long."""
        shell = self._shell
        life = shell.lives, shell.syncs
        if not shell.alive:
            self._waits = None
        elif self._waits is None or self._waits[0] != life:
            self._waits = life, time.monotonic()
            self._beat()
        elif time.monotonic() - self._waits[1] > self.timeout_secs:
            shell.hangs("answer a heartbeat")
        self._beat_later()

    _waits: tuple[tuple[int, int], float] | None = None
    """The child and its answers at the time of the last heartbeat, and that time."""

    # For the shell.

    def _hear(self, command: str, message: dict[str, Any]) -> None:
        if command == "emit":
            self._emit(message)
            return
        id = str(message.get("id"))
        tuple = self._held.pop(id, None)
        if tuple is None:
            raise EmitError(
                f"the program of {self.context.component!r} sends {command!r} for {id!r}, which is "
                "not the ID of an unfinished tuple: ack or fail each tuple once"
            )
        if command == "ack":
            self.collector.ack(tuple)
        else:
            self.collector.fail(tuple)

    def _emit(self, message: dict[str, Any]) -> None:
        anchors, tasks = [], []
        direct = message.get("task")
        try:
            for id in message.get("anchors") or ():
                if str(id) not in self._held:
                    raise EmitError(
                        f"the program of {self.context.component!r} anchors to {id!r}, which is "
                        "not the ID of an unfinished tuple: emit first, then ack"
                    )
                anchors.append(self._held[str(id)])
            stream = str(message.get("stream") or DEFAULT_STREAM)
            tasks = list(self.collector.emit(message.get("tuple") or [], anchors, stream, direct))
        except Exception:
            for each in anchors:
                self.collector.fail(each)
            raise
        finally:
            if direct is None and message.get("need_task_ids") is not False:
                self._shell.send(tasks)

    def _lose(self, error: ShellError) -> None:
        held, self._held = self._held, {}
        for tuple in held.values():
            self.collector.fail(tuple)
        self.collector.report_error(error)

    def _report(self, error: Exception) -> None:
        self.collector.report_error(error)

    def _flush(self) -> None:
        flush_soon = getattr(self.collector, "flush_soon", None)
        if flush_soon is not None:
            flush_soon()
