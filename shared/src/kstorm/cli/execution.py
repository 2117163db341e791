"""Runs a command in a pod, by Kubernetes' exec: what it prints is printed here, and its exit code is known.

There is no terminal in between, so that output and errors stay apart and are what they would be in a pipe. What is given to the
command on its standard input has no end there: the protocol cannot tell one, so the command must know how long it is.
"""

import codecs
import json
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from kstorm.cli.workloads import Pod
from kstorm.errors import ControlError

_STDIN: Final = 0
_STDOUT: Final = 1
_STDERR: Final = 2
_STATUS: Final = 3
_CHUNK: Final = 16_384
_LOOK_SECS: Final = 1.0
"""What was taken in while another stream was read is printed after so long, at the latest."""


def execute(
    core: Any,
    pod: Pod,
    command: Sequence[str],
    given: bytes | None = None,
    out: TextIO | None = None,
    errors: TextIO | None = None,
) -> int:
    """Returns the exit code. `core` is the client's `CoreV1Api`, by which nobody may ask anything else until the command runs;
    `given` goes to its input; `out` takes what it prints, and `errors` what it prints as errors.

    Raises the client's `ApiException` if Kubernetes refuses, `OSError` if it cannot be reached, and `ControlError` if the command
    could not be started, or its end was not seen.
    """
    session = _open(core, pod, command, stdin=given is not None)
    streams = {_STDOUT: _Text(out or sys.stdout), _STDERR: _Text(errors or sys.stderr)}
    try:
        _give(session, pod, given or b"")
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
    except ApiException as error:  # one without a status and a body, for anything that went wrong
        cause = error.__context__
        if (status := getattr(cause, "status_code", None)) is None:
            raise cause if isinstance(cause, OSError) else error from None
        answer = ApiException(status=status, reason=str(getattr(cause, "status_message", "")))
        answer.body = cause.resp_body
        raise answer from None


def _give(session: Any, pod: Pod, given: bytes) -> None:
    from websocket import WebSocketException

    try:
        for at in range(0, len(given), _CHUNK):
            session.write_channel(_STDIN, given[at : at + _CHUNK])
    except (OSError, WebSocketException) as error:
        raise _unseen(pod, str(error)) from None


class _Text:
    """A stream of the pod: a letter may come in two pieces."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: bytes) -> None:
        self._out.write(self._decoder.decode(data))
        self._out.flush()


def _print(session: Any, streams: dict[int, _Text]) -> None:
    """To read a stream that has nothing takes in what has come meanwhile, of any stream, and the end too."""
    for channel, text in streams.items():
        text.write(session.read_channel(channel))


def _await_more(session: Any, pod: Pod) -> None:
    from websocket import WebSocketException

    try:
        session.update(timeout=_LOOK_SECS)
    except (OSError, WebSocketException) as error:
        raise _unseen(pod, str(error)) from None


def _exit_code(pod: Pod, told: bytes) -> int:
    """From the status that Kubernetes sends at the end."""
    try:
        status = json.loads(told)
    except ValueError:
        raise _unseen(pod, "no exit code was told") from None
    if status.get("status") == "Success":
        return 0
    for cause in (status.get("details") or {}).get("causes") or ():
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    raise ControlError(
        f"nothing could be run in the pod {pod.name}: {' '.join(str(status.get('message')).split())}"
    )


def _unseen(pod: Pod, why: str) -> ControlError:
    return ControlError(
        f"the connection to the pod {pod.name} has broken ({why}), and what was run there may go on: look what has come of it"
    )
