"""Run a command in a pod through Kubernetes' exec, print its output here and return its exit code.

No terminal is allocated. So stdout and stderr stay separate, and the output is the same as in a
pipe. The command's standard input never ends, because the protocol cannot signal the end. So the
command must know the length of its input.
"""

import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from kstorm.errors import ControlError
from kstorm.operations.kubernetes.workloads import Pod

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
_STATUS: Final = 3
_CHUNK: Final = 16_384
_LOOK_SECS: Final = 1.0
"""Longest delay before data of one stream is printed while the other is being read."""


def execute(
    core: Any,
    pod: Pod,
    command: Sequence[str],
    given: bytes | None = None,
    out: TextIO | None = None,
    errors: TextIO | None = None,
) -> int:
    """Run the command and return its exit code.

    `core` is the client's `CoreV1Api`. Nothing else may use it until the command has started.
    `given` is the command's input. `out` and `errors` receive its output, by default this process's
    streams.

    Raises the client's `ApiException` if Kubernetes refuses, and `OSError` if it cannot be reached.
    Raises `ControlError` if the command could not be started, or if its exit code is unknown.
    """
    session = _open(core, pod, command, stdin=given is not None)
    streams = {
        _STDOUT: _OutputStream(out or sys.stdout),
        _STDERR: _OutputStream(errors or sys.stderr),
    }
    try:
        _send_input(session, pod, given or b"")
        while session.is_open():
            _await_more(session, pod)
            _print(session, streams)
        _print(session, streams)
        return _exit_code(pod, session.read_channel(_STATUS))
    finally:
        session.close()


def _open(core: Any, pod: Pod, command: Sequence[str], *, stdin: bool) -> Any:
    from kubernetes.client import ApiException
    from kubernetes.stream import stream

    try:
        return stream(
            core.connect_get_namespaced_pod_exec,
            pod.name,
            pod.namespace,
            command=[*command],
            container=pod.container,
            stdin=stdin,
            stdout=True,
            stderr=True,
            tty=False,
            binary=True,
            _preload_content=False,
        )
    # For every failure, the client raises an `ApiException` without status and body.
    except ApiException as error:
        cause = error.__context__
        if (status := getattr(cause, "status_code", None)) is None:
            raise cause if isinstance(cause, OSError) else error from None
        answer = ApiException(status=status, reason=str(getattr(cause, "status_message", "")))
        answer.body = cause.resp_body
        raise answer from None


def _send_input(session: Any, pod: Pod, given: bytes) -> None:
    from websocket import WebSocketException

    try:
        for at in range(0, len(given), _CHUNK):
            session.write_channel(_STDIN, given[at : at + _CHUNK])
    except (OSError, WebSocketException) as error:
        raise _lost_connection(pod, str(error)) from None


class _OutputStream:
    """An output stream of the pod. A character may be split between two chunks."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        self._out.write(self._decoder.decode(data))
        self._out.flush()


def _print(session: Any, streams: dict[int, _OutputStream]) -> None:
    """Print what has arrived.

    Reading an empty stream also receives new data of every stream, and the end.
    """
    for channel, text in streams.items():
        text.write(session.read_channel(channel))


def _await_more(session: Any, pod: Pod) -> None:
    from websocket import WebSocketException

    try:
        session.update(timeout=_LOOK_SECS)
    except (OSError, WebSocketException) as error:
        raise _lost_connection(pod, str(error)) from None


def _exit_code(pod: Pod, told: bytes) -> int:
    """Parse the status that Kubernetes sends at the end."""
    try:
        status = json.loads(told)
    except ValueError:
        raise _lost_connection(pod, "it returned no exit code") from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ControlError(
        f"the command could not run in the pod {pod.name}: "
        f"{' '.join(str(status.get('message')).split())}"
    )


def _lost_connection(pod: Pod, why: str) -> ControlError:
    return ControlError(
        f"the connection to the pod {pod.name} broke ({why}), and the command may continue there: "
        "check its effect"
    )
