"""A program that speaks the multilang protocol: `python program.py MODE [msgpack]`.

It is a bolt or a spout, well-behaved or not, and imports nothing of kstorm.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

MODE = sys.argv[1]


pending: list[Any] = []
"""Commands that came while the program waited for task IDs."""


def read() -> Any:
    return pending.pop(0) if pending else receive()


def receive() -> Any:
    lines: list[str] = []
    while True:
        line = sys.stdin.readline()
        if not line:
            sys.exit(0)
        if line == "end\n":
            return json.loads("".join(lines))
        lines.append(line)


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps(message) + "\nend\n")
    sys.stdout.flush()


def emit(values: list[Any], **more: Any) -> list[int]:
    send(command="emit", tuple=values, **more)
    if "task" in more or more.get("need_task_ids") is False:
        return []
    while not isinstance(ids := receive(), list):
        pending.append(ids)
    return ids


def main() -> None:
    shake = read()
    (Path(shake["pidDir"]) / str(os.getpid())).touch()
    send(pid=os.getpid())
    if MODE == "spout":
        spout()
    if MODE == "deaf":
        time.sleep(3600)
    held = []
    while True:
        tup = read()
        if tup["stream"] == "__heartbeat":
            send(command="sync")
            continue
        word = tup["tuple"][0]
        if MODE == "split":
            for each in word.split():
                emit([each], anchors=[tup["id"]])
        elif MODE == "ids":
            ids = emit([f"to {len(emit([word]))}"], anchors=[tup["id"]])
            emit([word], stream="direct", task=ids[0], anchors=[tup["id"]])
        elif MODE == "handshake":
            emit([json.dumps(shake)])
        elif MODE == "talk":
            print("to the standard error", file=sys.stderr, flush=True)
            send(command="log", msg="to the log", level=3)
            send(command="metrics", name="hits.total", params={"a": 2})
            send(command="error", msg="an error of its own")
        elif MODE == "die" and word == "bad":
            print("so long", file=sys.stderr, flush=True)
            sys.exit(3)
        elif MODE == "killed" and word == "bad":
            os.kill(os.getpid(), signal.SIGKILL)
        elif MODE == "garbage" and word == "bad":
            print("hello, world\nend", flush=True)
        elif MODE == "unknown" and word == "bad":
            send(command="dance")
        elif MODE == "hang" and word == "bad":
            time.sleep(3600)
        elif MODE == "stranger":
            send(command="ack", id="never")
            emit(["x"], anchors=["never"])
        elif MODE == "many fields":
            emit([1, 2, 3], anchors=[tup["id"]])
        elif MODE == "flood":
            for number in range(20_000):
                emit([str(number)], anchors=[tup["id"]], need_task_ids=False)
        elif MODE == "leave children":
            sleeper = subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL)
            emit([f"{os.getpid()} {sleeper.pid}"])
        elif MODE == "slow":
            time.sleep(0.01)
        elif MODE == "fail" and word == "bad":
            send(command="fail", id=tup["id"])
            continue
        elif MODE == "pairs":
            held.append(tup["id"])
            if len(held) < 2:
                continue
            emit([str(len(held))], anchors=held)
            for id in held[:-1]:
                send(command="ack", id=id)
            held = []
        if MODE != "never acks":
            send(command="ack", id=tup["id"])


def spout() -> None:
    left = [0, 1, 2]
    again: list[int] = []
    while True:
        asked = read()
        if asked["command"] == "next" and (again or left):
            number = again.pop() if again else left.pop(0)
            emit([f"n{number}"], id=number)
        elif asked["command"] == "fail":
            again.append(asked["id"])
        elif asked["command"] in ("ack", "activate", "deactivate"):
            send(command="log", msg=f"{asked['command']} {asked.get('id')}", level=2)
        send(command="sync")


main()
