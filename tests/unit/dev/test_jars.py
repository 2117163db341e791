"""Downloading and verifying jars, with the real Ivy and a repository in a folder."""

import hashlib
import re
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from kstorm.dev import jars
from kstorm.dev.free_ports import reserve_port
from kstorm.dev.jars import (
    KAFKA_SET,
    MENDED_SET,
    S3_SET,
    SPARK_SET,
    SPARK_VERSION,
    ZOOKEEPER_SET,
    kafka_jars,
    lay_out,
    list_path,
    parse_list,
    prepare,
    read_list,
    s3_jars,
    zookeeper_classpath,
)
from kstorm.dev.java import spark_home
from kstorm.dev.pipeline import jars_for
from kstorm.errors import ConfigError, LocalError
from tests.unit.dev.conftest import Eventually
from tools.kafka_releases import NEW_KAFKA_LIST, OLD_KAFKA_LIST
from tools.spark_releases import OLD_SPARK_LIST

SETTINGS = """\
<ivysettings>
  <settings defaultResolver="folder"/>
  <resolvers><filesystem name="folder" m2compatible="true">
    <artifact pattern="{repository}/[organisation]/[module]/[revision]/[artifact]-[revision].[ext]"/>
  </filesystem></resolvers>
</ivysettings>
"""

SILENT = """\
<ivysettings>
  <settings defaultResolver="silent"/>
  <resolvers><ibiblio name="silent" m2compatible="true" usepoms="false" root="http://127.0.0.1:{port}/"/></resolvers>
</ivysettings>
"""


@pytest.fixture
def repository(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point Ivy and the list of Kafka's jars at a folder with two small jars, and return the
    folder."""
    repository = tmp_path / "repository"
    lines = []
    for name in ("one", "two"):
        jar = repository / "org" / "example" / name / "1.0" / f"{name}-1.0.jar"
        jar.parent.mkdir(parents=True)
        jar.write_text(name)
        lines.append(f"{hashlib.sha256(name.encode()).hexdigest()} org.example:{name}:1.0\n")
    pinned = tmp_path / "pinned.sha256"
    pinned.write_text("# a comment\n" + "".join(lines))
    settings = tmp_path / "settings.xml"
    settings.write_text(SETTINGS.format(repository=repository))
    monkeypatch.setenv("KSTORM_IVY_SETTINGS", str(settings))
    monkeypatch.setattr(jars, "list_path", lambda _set_name: pinned)
    return repository


def test_jars_are_fetched_once(repository: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first call shows its progress. The second call uses the cache and shows nothing."""
    paths = kafka_jars()
    assert [path.read_text() for path in paths] == ["one", "two"]
    *unfinished, line = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"jars +100% +\d+ s  2 of 2", line)
    # A slow machine also shows a line every ten seconds.
    assert all(re.match(r"jars +\d+% ", each) for each in unfinished)
    assert kafka_jars() == paths
    assert capsys.readouterr().err == ""


def test_parts_of_a_list_are_fetched_in_parallel(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each part has its own Ivy and folder, and all sets are fetched at the same time."""
    monkeypatch.setattr(jars, "_JARS_IN_PART", 1)
    monkeypatch.setattr(jars, "fix_spark", lambda: None)
    prepare()
    for name in (KAFKA_SET, ZOOKEEPER_SET, SPARK_SET, MENDED_SET):
        assert len(list((cache / "jars" / name).iterdir())) == 2
    assert not list((cache / "jars").glob(".*unfinished*"))


@pytest.mark.usefixtures("repository")
def test_another_pyspark_is_refused_before_anything_is_fetched(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jars, and the fixes of its own jars, are for one release."""
    monkeypatch.setattr(jars, "version", lambda _package: "4.1.1")
    with pytest.raises(
        LocalError, match=rf"pyspark 4\.1\.1 is installed, .*: pip install pyspark=={SPARK_VERSION}"
    ):
        prepare()
    assert not (cache / "jars").exists()


def test_second_attempt_keeps_the_complete_parts(
    repository: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A complete part stays, even if another part has failed."""
    monkeypatch.setattr(jars, "_JARS_IN_PART", 1)
    jar = repository / "org" / "example" / "two" / "1.0" / "two-1.0.jar"
    jar.rename(tmp := jar.with_suffix(".away"))
    with pytest.raises(LocalError, match=r"two;1\.0: not found"):
        kafka_jars()
    tmp.rename(jar)
    assert len(kafka_jars()) == 2


def test_ctrl_c_ends_every_ivy(
    repository: Path, monkeypatch: pytest.MonkeyPatch, eventually: Eventually
) -> None:
    """They would wait minutes for a repository that does not respond."""
    before = set(psutil.Process().children(recursive=True))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = repository.parent / "silent.xml"
        settings.write_text(SILENT.format(port=silent.getsockname()[1]))
        monkeypatch.setenv("KSTORM_IVY_SETTINGS", str(settings))
        asked = threading.Timer(2.0, lambda: signal.raise_signal(signal.SIGINT))
        asked.start()
        with pytest.raises(KeyboardInterrupt):
            kafka_jars()
    eventually(lambda: not set(psutil.Process().children(recursive=True)) - before)


def test_missing_network_is_reported_in_one_sentence(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = repository.parent / "nowhere.xml"
    settings.write_text(SILENT.format(port=reserve_port()))
    monkeypatch.setenv("KSTORM_IVY_SETTINGS", str(settings))
    with pytest.raises(LocalError) as error:
        kafka_jars()
    assert "could not be fetched: the registry does not answer." in str(error.value)
    assert "\n" not in str(error.value)


def test_images_get_one_folder_of_jars_per_server(repository: Path, tmp_path: Path) -> None:
    """They are copies, because a build may change the folder."""
    lay_out(tmp_path / "jars")
    folders = {
        folder.name: {jar.name for jar in folder.iterdir()}
        for folder in (tmp_path / "jars").iterdir()
    }
    names = {"one-1.0.jar", "two-1.0.jar"}
    assert folders == dict.fromkeys(("kafka", "zookeeper", "spark", "mended"), names)


def test_concurrent_processes_fetch_jars_once(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other process waits for the first and uses its jars."""
    with ThreadPoolExecutor() as pool:
        first, second = pool.submit(kafka_jars), pool.submit(kafka_jars)
        assert first.result() == second.result()
    assert capsys.readouterr().err.count("100%") == 1


def test_jar_with_another_hash_is_rejected(repository: Path, cache: Path) -> None:
    """The error names the jar, which is not added to the cache. A correct jar is accepted later."""
    jar = repository / "org" / "example" / "two" / "1.0" / "two-1.0.jar"
    jar.write_text("forged")
    with pytest.raises(LocalError, match=r"two-1\.0\.jar is not the jar"):
        kafka_jars()
    assert not (cache / "jars" / KAFKA_SET).exists()
    jar.write_text("two")
    assert len(kafka_jars()) == 2


def test_changed_jar_in_the_cache_is_rejected(repository: Path) -> None:
    """Every use checks the content. The error names the file and the remedy."""
    path = kafka_jars()[0]
    path.write_text("changed")
    with pytest.raises(LocalError, match=rf"{path} is not the jar.*Remove {path.parent}"):
        kafka_jars()


def test_jar_missing_in_the_cache_is_fetched(
    repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new version of kstorm may need another jar.

    The others stay, because a server may use them.
    """
    first, second = kafka_jars()
    before = first.stat()
    second.unlink()
    capsys.readouterr()
    assert [path.read_text() for path in kafka_jars()] == ["one", "two"]
    assert "1 of 1" in capsys.readouterr().err
    assert (first.stat().st_ino, first.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_unavailable_jar_is_named(repository: Path) -> None:
    """The error explains how to set a proxy or a mirror."""
    (repository / "org" / "example" / "one" / "1.0" / "one-1.0.jar").unlink()
    with pytest.raises(LocalError, match=r"org\.example#one;1\.0: not found.*KSTORM_IVY_SETTINGS"):
        kafka_jars()


def test_every_listed_jar_is_pinned_by_version_and_content() -> None:
    """The lists have full coordinates and digests, and no jar twice."""
    for jar_list, count in (
        (list_path(KAFKA_SET), 46),
        (OLD_KAFKA_LIST, 57),
        (NEW_KAFKA_LIST, 46),
        (list_path(ZOOKEEPER_SET), 17),
        (list_path(SPARK_SET), 15),
        (OLD_SPARK_LIST, 15),
        (list_path(S3_SET), 4),
        (list_path(MENDED_SET), 34),
    ):
        pinned = parse_list(jar_list)
        assert len({jar.file_name for jar in pinned}) == len(pinned) == count
        assert all(len(jar.sha256) == 64 and int(jar.sha256, 16) >= 0 for jar in pinned)


def test_s3_jars_match_the_hadoop_of_pyspark() -> None:
    """S3A and the rest of Hadoop must have the same version."""
    (version,) = (jar.version for jar in read_list(S3_SET) if jar.artifact == "hadoop-aws")
    assert (spark_home() / "jars" / f"hadoop-client-api-{version}.jar").is_file()


def test_s3_jars_are_fetched_only_for_s3_locations(repository: Path) -> None:
    """They have half a gigabyte."""
    local = len(jars_for(["run", "--tables", "tables"], {}))
    s3 = "s3a://bucket/orders"
    for words, environment in [
        (["run", "--tables", s3], {}),
        (["run", f"--tables={s3}"], {}),
        (["summary"], {"KSTORM_PIPELINE_TABLES": s3}),
        (["run", "--tables", "tables"], {"KSTORM_PIPELINE_CHECKPOINTS": s3}),
    ]:
        assert len(jars_for(words, environment)) == 2 * local
        assert s3_jars()[0] in jars_for(words, environment)


@pytest.fixture
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """`kstorm[local]` has no pyspark, and so no Ivy."""
    monkeypatch.setattr(jars, "find_spec", lambda _name: None)


@pytest.mark.usefixtures("without_spark")
def test_jars_are_fetched_without_spark(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The list decides about the content here too."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(repository))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("KSTORM_MAVEN_REPOSITORY", url)
        assert [path.read_text() for path in zookeeper_classpath()] == ["one", "two"]
        assert "2 of 2" in capsys.readouterr().err
        (repository / "org" / "example" / "two" / "1.0" / "two-1.0.jar").write_text("other")
        with pytest.raises(LocalError, match="is not the jar that kstorm was tested with"):
            kafka_jars()
        server.shutdown()


@pytest.mark.usefixtures("without_spark", "repository")
def test_dead_proxy_is_named_without_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy depends on who did not answer: the registry, a mirror, or the proxy."""
    proxy = f"127.0.0.1:{reserve_port()}"
    monkeypatch.delenv("KSTORM_MAVEN_REPOSITORY", raising=False)
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:secret@{proxy}")
    with pytest.raises(LocalError) as refused:
        kafka_jars()
    said = str(refused.value)
    assert f"The proxy of HTTPS_PROXY is http://…@{proxy}" in said
    assert "secret" not in said


@pytest.mark.usefixtures("without_spark", "repository")
def test_repository_that_is_no_url_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTORM_MAVEN_REPOSITORY", "mirror.example.com/maven2")
    with pytest.raises(ConfigError, match=r"is 'mirror\.example\.com/maven2', which is not a URL"):
        kafka_jars()


@pytest.mark.usefixtures("without_spark", "repository")
def test_missing_network_without_spark_names_the_mirror(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KSTORM_MAVEN_REPOSITORY", f"http://127.0.0.1:{reserve_port()}/")
    with pytest.raises(
        LocalError, match=r"could not be fetched: .*KSTORM_MAVEN_REPOSITORY is http://127"
    ):
        kafka_jars()
