"""The server side of Kubernetes' exec: a WebSocket whose frames hold a channel number and bytes."""

import hashlib
import json
import os
import struct
import subprocess
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from http.server import BaseHTTPRequestHandler

Frames = Iterator[tuple[int, bytes]]
"""Channel and content. Channel 1 is the command's output, 2 its errors, 3 its exit status."""

_GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_BINARY, _CLOSE = 0x82, 0x88


def ended(code: int) -> tuple[int, bytes]:
    """Return the last frame that Kubernetes sends."""
    if not code:
        return 3, b'{"metadata":{},"status":"Success"}'
    return 3, json.dumps(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: exit status {code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
        }
    ).encode()


def run_here(
    environ: Mapping[str, str], read_input: Callable[[int], bytes] = lambda length: b""
) -> Callable[[str, list[str]], Frames]:
    """Return a function that runs the pod's command on this machine with the pod's variables.

    It reads as many bytes of input as `--stdin` names.
    """

    def run(pod: str, command: list[str]) -> Frames:
        python = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        lengths = [
            int(word.removeprefix("--stdin=")) for word in command if word.startswith("--stdin=")
        ]
        done = subprocess.run(
            command,
            env={**python, **environ},
            input=read_input(sum(lengths)),
            capture_output=True,
            check=False,
            timeout=120,
        )
        yield 1, done.stdout
        yield 2, done.stderr
        yield ended(done.returncode)

    return run


def serve_exec(handler: BaseHTTPRequestHandler, frames: Frames) -> None:
    """Send all frames. Close the connection properly after a last frame, and break it otherwise."""
    key = handler.headers["Sec-WebSocket-Key"]
    handler.send_response(101)
    handler.send_header("Upgrade", "websocket")
    handler.send_header("Connection", "Upgrade")
    handler.send_header(
        "Sec-WebSocket-Accept", b64encode(hashlib.sha1((key + _GUID).encode()).digest()).decode()
    )
    handler.send_header("Sec-WebSocket-Protocol", "v4.channel.k8s.io")
    handler.end_headers()
    channel = -1
    for channel, content in frames:
        _send(handler, _BINARY, bytes([channel]) + content)
    if channel == 3:
        _send(handler, _CLOSE, struct.pack("!H", 1000))


def read_input(handler: BaseHTTPRequestHandler, length: int) -> bytes:
    """Return `length` bytes of the command's input, which clients send masked."""
    found = b""
    while len(found) < length:
        kind, size = handler.rfile.read(2)
        size &= 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", handler.rfile.read(2))
        mask, content = handler.rfile.read(4), handler.rfile.read(size)
        plain = bytes(byte ^ mask[at % 4] for at, byte in enumerate(content))
        assert (kind, plain[0]) == (_BINARY, 0)
        found += plain[1:]
    return found


def _send(handler: BaseHTTPRequestHandler, kind: int, content: bytes) -> None:
    size = (
        struct.pack("!B", len(content))
        if len(content) < 126
        else struct.pack("!BH", 126, len(content))
    )
    handler.wfile.write(bytes([kind]) + size + content)
    handler.wfile.flush()
