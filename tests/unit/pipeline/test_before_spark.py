"""Kafka and folders that cannot be used: one line within 3 s, exit code 2, and no Spark."""

import asyncio
import base64
import json
import os
import socket
import time
from pathlib import Path
from struct import pack

import pytest

from kstorm.dev.free_ports import reserve_port
from kstorm_pipeline import __main__ as program
from kstorm_pipeline.__main__ import main
from tests.tcp_listener import Listener

ID = bytes(range(16))
MISSING = 3


class Broker(Listener):
    """Answers a request for a topic's metadata."""

    def __init__(self, error: int = 0, *, silent: bool = False) -> None:
        super().__init__()
        self._error, self._silent = error, silent

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4))
        asked = await reader.readexactly(size)
        if self._silent:
            await asyncio.sleep(60)
        assert b"words" in asked
        broker = pack(">i", 1) + b"\2h" + pack(">i", 9092) + b"\0\0"
        topic = pack(">h", self._error) + b"\6words" + ID + b"\0\1" + pack(">i", 0) + b"\0"
        answer = pack(">i", 1) + b"\0" + pack(">i", 0) + b"\2" + broker + b"\2c" + pack(">i", 1)
        answer += b"\2" + topic + pack(">i", 0) + b"\0"
        writer.write(pack(">i", len(answer)) + answer)
        await writer.drain()


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr(program, "start_spark", start)


def run(tables: Path, servers: str, *more: str, command: str = "run") -> int:
    words = [command, "--tables", str(tables), "--bootstrap-servers", servers]
    return main([*words, "--topic", "words", *more])


def refused(capsys: pytest.CaptureFixture[str]) -> str:
    """Return the only line of output."""
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1, said.err
    return said.err


def made_from(tables: Path, topic: str, topic_id: str) -> None:
    """Write a bronze table and its checkpoint."""
    log = tables / "bronze" / "_delta_log"
    log.mkdir(parents=True)
    properties = {"kstorm.topic": topic, "kstorm.topic.id": topic_id}
    schema = json.dumps({"type": "struct", "fields": []})
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": {"schemaString": schema, "configuration": properties}},
    ]
    (log / f"{0:020}.json").write_text("".join(f"{json.dumps(each)}\n" for each in actions))
    checkpoint = tables / "_checkpoints" / "bronze"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "q"}')


def test_missing_broker_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Spark would try for minutes. One of the servers accepts connections and no more of them."""
    nobody = f"127.0.0.1:{reserve_port()}"
    assert run(tmp_path, nobody) == 2
    assert f"no Kafka broker responds ({nobody}: Connection refused): check" in refused(capsys)
    begun = time.monotonic()
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = f"127.0.0.1:{full.getsockname()[1]}"
        held = [socket.create_connection(full.getsockname()) for _ in range(1)]
        assert run(tmp_path, f"{nobody},{address}") == 2
    assert f"{nobody}: Connection refused; {address}: timed out): check" in refused(capsys)
    assert time.monotonic() - begun < 3
    for each in held:
        each.close()


class WebServer(Listener):
    """Answers every request with an error, in HTTP."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(4)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()


def test_other_server_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Kafka's client would take the first letters for a length, and its heap would be too small."""
    with WebServer() as server:
        assert run(tmp_path, server.address) == 2
        said = refused(capsys)
    assert f"({server.address}: it does not speak Kafka's protocol without TLS; is --kaf" in said


def test_missing_topic_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    begun = time.monotonic()
    with Broker(MISSING) as broker:
        assert run(tmp_path, broker.address) == 2
    assert time.monotonic() - begun < 3
    assert (
        f"there is no topic 'words' at {broker.address}: create it or correct --topic"
        in refused(capsys)
    )


def test_tables_of_another_topic_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also those of an earlier topic with the same name."""
    known = base64.urlsafe_b64encode(ID).rstrip(b"=").decode()
    with Broker() as broker:
        made_from(tmp_path / "other", "letters", known)
        assert run(tmp_path / "other", broker.address) == 2
        assert "were made from the topic 'letters', not from 'words': correct" in refused(capsys)
        made_from(tmp_path / "earlier", "words", "AAAA")
        assert run(tmp_path / "earlier", broker.address) == 2
        said = refused(capsys)
        assert f"recreated: its id is {known}, and the tables were made from AAAA. Set" in said
        made_from(tmp_path / "same", "words", known)
        with pytest.raises(AssertionError, match="Spark is started"):
            run(tmp_path / "same", broker.address)


@pytest.mark.parametrize("more", [(), ("--kafka-option", "security.protocol=SASL_SSL")])
def test_spark_asks_a_kafka_that_does_not_answer_this_request(
    more: tuple[str, ...], tmp_path: Path
) -> None:
    """It may require TLS or a login, or be an old or a busy one."""
    begun = time.monotonic()
    with (
        Broker(silent=True) as broker,
        pytest.raises(AssertionError, match="Spark is started"),
    ):
        run(tmp_path, broker.address, *more)
    assert time.monotonic() - begun < 3


def test_read_only_folder_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or one that would be below it. Root may write everywhere, so its rights are faked."""
    if os.geteuid() == 0:
        monkeypatch.setattr(os, "access", lambda place, _: tmp_path not in (place, *place.parents))
    tmp_path.chmod(0o500)
    try:
        with Broker() as broker:
            assert run(tmp_path, broker.address) == 2
            assert f"{str(tmp_path)!r}, which cannot be written: correct its" in refused(capsys)
            assert run(tmp_path / "a" / "b", broker.address) == 2
            assert f"cannot be created, because {tmp_path} cannot be written" in refused(capsys)
    finally:
        tmp_path.chmod(0o700)


def test_folder_of_one_table_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_from(tmp_path, "words", "AAAA")
    with Broker() as broker:
        assert run(tmp_path / "bronze", broker.address) == 2
    assert f"which is one Delta table: give its parent folder, {str(tmp_path)!r}" in refused(capsys)


@pytest.mark.parametrize("words", [["describe"], ["maintain"], ["rebuild", "totals"]])
def test_commands_need_tables(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--tables", str(tmp_path)]) == 2
    assert f"there are no tables at {tmp_path}: run the pipeline first" in refused(capsys)
