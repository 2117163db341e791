"""`ShellSpout`: a spout in any language."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final

from kstorm.fitting import Text, checked
from kstorm.multilang.program import ABOVE_0, Outputs, Program, Serializer
from kstorm.multilang.shell import Shell, ShellError
from kstorm.topology import DEFAULT_STREAM, Config, Spout, SpoutOutputCollector, TopologyContext

_NO_ID: Final = None
"""Tuples that the program emits without an ID. They count as pending, too."""


class ShellSpout(Program, Spout):
    """Runs a program that speaks Storm's multilang protocol as a spout, one child process per task.

    kstorm asks the program for a tuple, and waits until it has answered with `sync`. If it ends,
    hangs or writes anything else, it is started again. The new child does not know the tuples of
    the old one, so kstorm reports neither acks nor failures of these.
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
    ) -> None:
        """The arguments are those of `ShellBolt`. A program that does not answer within
        `timeout_secs` is killed. Raises `ArgumentError` for values of other types.
        """
        self._describe(command, outputs, serializer, env, cwd, timeout_secs)

    def open(
        self, config: Config, context: TopologyContext, collector: SpoutOutputCollector
    ) -> None:
        self.config, self.context, self.collector = config, context, collector
        self._shell = Shell(self, self, self._measured, config, context)
        self._shell.start()

    async def next_tuple(self) -> None:
        await self._ask({"command": "next"})

    async def activate(self) -> None:
        await self._ask({"command": "activate"})

    async def deactivate(self) -> None:
        await self._ask({"command": "deactivate"})

    async def ack(self, message_id: Any) -> None:
        await self._tell("ack", message_id)

    async def fail(self, message_id: Any) -> None:
        await self._tell("fail", message_id)

    async def close(self) -> None:
        await self._shell.close()

    def problem(self) -> Exception | None:
        return self._shell.trouble

    async def _tell(self, command: str, message_id: tuple[int, Any]) -> None:
        life, id = message_id
        if id is not _NO_ID and life == self._shell.lives and self._shell.alive:
            await self._ask({"command": command, "id": id})

    async def _ask(self, message: dict[str, Any]) -> None:
        """Send a command, and wait until the program has answered it."""
        shell = self._shell
        await shell.ready()
        before = shell.syncs
        shell.send(message)
        await shell.until(lambda: shell.syncs > before, f"answer {message['command']!r}")

    # For the shell.

    def _hear(self, command: str, message: dict[str, Any]) -> None:
        if command != "emit":
            return  # a spout acks nothing
        tasks: list[int] = []
        direct = message.get("task")
        try:
            stream = str(message.get("stream") or DEFAULT_STREAM)
            id = self._shell.lives, message.get("id", _NO_ID)
            tasks = list(self.collector.emit(message.get("tuple") or [], id, stream, direct))
        finally:
            if direct is None and message.get("need_task_ids") is not False:
                self._shell.send(tasks)

    def _lose(self, error: ShellError) -> None:
        self.collector.report_error(error)

    def _report(self, error: Exception) -> None:
        self.collector.report_error(error)

    def _flush(self) -> None:
        """The spout's turn sends its tuples."""
