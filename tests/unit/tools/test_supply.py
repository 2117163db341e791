"""`./run deps`: known vulnerabilities and licences of third-party packages, jars and scripts."""

import json
import re
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import distributions
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar

import pytest

from kstorm.dev.free_ports import reserve_port
from tools.supply import __main__ as deps
from tools.supply import licences
from tools.supply.advisories import (
    Advisory,
    Allowed,
    complaints,
    find,
    read_advisories,
    read_exceptions,
)
from tools.supply.parts import Part, all_parts, locked, numbers

ROOT = Path(__file__).parents[3]
TODAY = date(2026, 11, 24)
LATE = date(2026, 11, 23)
LOCKS = ["requirements.lock", "requirements-dev.lock", "build-requirements.txt"]


def jar(name: str, version: str, where: str = "pyspark") -> Part:
    return Part("jar", name, version, where)


def test_dependencies_have_no_known_vulnerability_and_allowed_licences() -> None:
    """Each exception is still needed."""
    parts = all_parts(ROOT)
    assert not complaints(find(parts, read_advisories()), read_exceptions(), TODAY)
    assert not licences.complaints(parts, TODAY)


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("lz4-java", "1.8.0"),
        ("netty-handler", "4.1.118.Final"),
        ("zookeeper", "3.9.3"),
        ("log4j-core", "2.25.3"),
        ("jackson-core", "2.19.4"),
        ("kafka-clients", "3.9.0"),
        ("commons-lang3", "3.17.0"),
        ("spark-network-common_2.13", "4.0.0"),
        ("jackson-mapper-asl", "1.9.13"),
    ],
)
def test_replaced_jars_of_pyspark_and_kafka_are_vulnerable(name: str, version: str) -> None:
    """The line has the vulnerability and the fixed version."""
    [line] = complaints(find([jar(name, version)], read_advisories()), [], TODAY)
    assert line.startswith(f"{name} {version} (pyspark) has ")
    assert "mended in " in line or "not known to be mended" in line


def test_vulnerability_is_fixed_per_release_series() -> None:
    """A version is good if its series has an earlier fix, or if it is newer than all fixes."""
    advisory = Advisory("jar", "a-*", ("CVE-1",), ("2.18.8", "2.21.4"))
    versions = ("2.17.9", "2.18.7", "2.18.8", "2.18.10", "2.19.9", "2.21.3", "2.21.4", "2.30")
    bad = [version for version in versions if advisory.concerns(jar("a-b", version))]
    assert bad == ["2.17.9", "2.18.7", "2.19.9", "2.21.3"]
    assert not advisory.concerns(jar("b", "1.0"))
    assert not advisory.concerns(Part("package", "a-b", "1.0", "requirements.lock"))
    assert numbers("4.1.137.Final") == (4, 1, 137)


def test_exception_has_an_expiry_date_and_a_place() -> None:
    """It does not cover other places and vulnerabilities. An unused exception is an error."""
    findings = find([jar("a", "1.0")], [Advisory("jar", "a", ("CVE-1",), ())])
    allowed = Allowed("a", "pyspark", ("CVE-1",), TODAY, "why")
    assert not complaints(findings, [allowed], TODAY)
    assert complaints(findings, [Allowed("a", "pyspark", ("CVE-1",), LATE, "why")], TODAY) == [
        "the exception for a in pyspark ended on 2026-11-23: mend it, or look at it anew and give it another day"
    ]
    for where, ids in (("kafka-4.1.2", ("CVE-1",)), ("pyspark", ("CVE-2",))):
        found, idle = complaints(findings, [Allowed("a", where, ids, TODAY, "why")], TODAY)
        assert found == "a 1.0 (pyspark) has CVE-1; not known to be mended"
        assert idle.endswith("is for nothing that is there: take it out of exceptions.toml")


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_is_locked_with_its_hash(name: str) -> None:
    """This includes installers and build tools."""
    entries = re.split(r"(?m)^(?=[A-Za-z0-9])", (ROOT / name).read_text())[1:]
    assert len(entries) == len(list(locked(ROOT / name))) >= 10
    for entry in entries:
        assert re.match(r"[\w.-]+==\S+( ; .*)?( \\\n    --hash=sha256:[0-9a-f]{64})+\n", entry), (
            entry
        )


def test_unknown_or_unwanted_licence_is_an_error() -> None:
    """One allowed choice is enough. With AND all must be allowed."""
    known = licences.Licences(
        allowed=frozenset({"MIT", "EPL-2.0"}),
        packages=(
            ("free", "MIT"),
            ("choice", "AGPL-3.0-only OR MIT"),
            ("both", "MIT AND GPL-3.0-only"),
        ),
        jars=(),
        scripts=(),
        exceptions=(("late", LATE),),
    )
    parts = [
        Part("package", name, "1", "lock") for name in ("free", "choice", "both", "new", "late")
    ]
    assert licences.complaints(parts, TODAY, known) == [
        "both 1 (lock) is under MIT AND GPL-3.0-only, which is not among the allowed licences of licences.toml",
        "the licence of new 1 (lock) is not known: look at it, and write it into licences.toml",
        "the exception for the licence of late ended on 2026-11-23: look at it anew, in licences.toml",
    ]


def test_licence_list_matches_the_metadata_of_packages() -> None:
    """Some packages state their licence as an SPDX expression."""
    known, checked = licences.read(), 0
    names = {part.name for lock in LOCKS for part in locked(ROOT / lock)}
    for each in distributions():
        name = re.sub(r"[-_.]+", "-", each.name).lower()
        if "License-Expression" in each.metadata and name in names:
            assert known.of("package", name) == each.metadata["License-Expression"]
            checked += 1
    assert checked > 20


class Database(BaseHTTPRequestHandler):
    """Has two vulnerable jars, and one of our exceptions under another id."""

    HOLES: ClassVar = {
        "org.apache.kafka:kafka_2.13": "GHSA-1",
        "org.apache.zookeeper:zookeeper": "GHSA-2",
    }

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["queries"]
        self.answer({"results": [self.known(**each) for each in asked]})

    def do_GET(self) -> None:
        self.answer({"aliases": ["CVE-2026-24281"] if self.path == "/v1/vulns/GHSA-2" else []})

    def answer(self, content: dict[str, Any]) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def known(self, package: dict[str, str], version: str) -> dict[str, Any]:
        hole = (
            self.HOLES.get(package["name"])
            if package["ecosystem"] == "Maven" and version != "3.9.5"
            else None
        )
        return {"vulns": [{"id": hole}]} if hole else {}

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A database that responds."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Database)
    Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("KSTORM_OSV", f"http://127.0.0.1:{server.server_port}")
    yield
    server.shutdown()
    server.server_close()


def test_vulnerability_in_the_database_is_an_error(
    database: None, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each list with the jar has a line. An exception matches by any id of the vulnerability."""
    assert deps.main([]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "kstorm: kafka_2.13 3.9.2 (kafka-3.9.2) has GHSA-1; not known to be mended",
        "kstorm: kafka_2.13 4.1.2 (kafka-4.1.2) has GHSA-1; not known to be mended",
        "kstorm: kafka_2.13 4.4.0 (kafka-4.4.0) has GHSA-1; not known to be mended",
    ]


def test_missing_database_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Only the list of known vulnerabilities counts then."""
    monkeypatch.setenv("KSTORM_OSV", f"http://127.0.0.1:{reserve_port()}")
    monkeypatch.setattr("tools.supply.advisories.read_exceptions", list)
    assert deps.main([]) == 1
    assert "zookeeper 3.8.4 (kafka-3.9.2) has " in capsys.readouterr().err
    monkeypatch.undo()
    monkeypatch.setenv("KSTORM_OSV", f"http://127.0.0.1:{reserve_port()}")
    assert deps.main([]) == 0
    said = capsys.readouterr().out
    assert said.count("\n") == 1
    assert (
        "only the list of known vulnerabilities was checked, because no database responds: http://127.0.0.1:"
        in said
    )
