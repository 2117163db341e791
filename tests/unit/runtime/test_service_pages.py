"""The pages of a service, which never contain the text of an exception."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import structlog

from kstorm.errors import BrokerError
from kstorm.runtime.service.service_journal import ServiceJournal
from tests.unit.runtime.serving import run, serving
from tests.unit.runtime.test_driver import BareDriver, topology

CANARY = "https://kafka.example.com/?token=canary-7f3a"


class Troubled(BareDriver):
    """A running driver whose component reports a problem."""

    trouble: Exception = ConnectionError(f"no answer from {CANARY}")

    def __init__(self) -> None:
        super().__init__(topology())
        self.journal = ServiceJournal(structlog.get_logger())
        stand_in: Any = SimpleNamespace
        quiet = stand_in(problem=str, longest_secs=0)
        self.producer = stand_in(records=0, bytes=0)
        self.consumer = stand_in(
            transactions=quiet,
            throttled=False,
            joined=True,
            assignment=[3],
            stands_by=False,
            preparing=(),
        )

    def components(self) -> Any:
        return [(3, SimpleNamespace(problem=lambda: self.trouble))]


def test_no_text_of_an_exception_is_on_a_page(tmp_path: Path) -> None:
    """The page has the error's type, task and age.

    The log has its text, and that of a problem once.
    """

    async def main() -> None:
        driver = Troubled()
        driver.journal.error(ValueError(f"cannot read {CANARY}"), "in execute", 3)
        async with serving(tmp_path, driver) as served:
            pages = {
                path: await served.get(path)
                for path in ("/livez", "/readyz", "/metrics", "/status")
            }
            assert CANARY not in str(pages)
            assert "canary" not in str(pages)
            problem = "task 3 has a problem, ConnectionError: its text is in the log"
            assert pages["/readyz"] == (503, f"{problem}\n")
            status = json.loads(pages["/status"][1])
            assert (status["component"], status["errors"]) == ("sink", 1)
            assert (status["last_error"], status["last_error_task"]) == ("ValueError", 3)
            assert 0 <= status["last_error_age"] < 60
            assert status["not_ready"] == problem

    with structlog.testing.capture_logs() as logged:
        run(main())
    assert [
        (line["event"], line["task"], line.get("error", line.get("problem"))) for line in logged
    ] == [
        ("component_error", 3, f"ValueError: cannot read {CANARY}"),
        ("not_ready", 3, f"ConnectionError: no answer from {CANARY}"),
    ]


def test_a_problem_in_the_words_of_kstorm_is_shown(tmp_path: Path) -> None:
    """They address the operator, and contain no secret."""

    async def main() -> None:
        driver = Troubled()
        driver.trouble = BrokerError("ZooKeeper at zookeeper:2181 cannot be reached: offsets wait")
        async with serving(tmp_path, driver) as served:
            assert await served.get("/readyz") == (503, f"{driver.trouble}\n")

    run(main())


def test_status_without_an_error_has_empty_error_fields() -> None:
    assert ServiceJournal(structlog.get_logger()).status() == {
        "errors": 0,
        "last_error": "",
        "last_error_task": None,
        "last_error_age": None,
    }
