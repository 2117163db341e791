"""skaffold.yaml names only existing files, images, chart values, and the output of the chart's
test."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from kstorm.cli.__main__ import main
from tests.chart.conftest import Render, one

ROOT = Path(__file__).parents[2]
CONFIG: dict[str, Any] = yaml.safe_load((ROOT / "skaffold.yaml").read_text())
RELEASES = [
    *CONFIG["deploy"]["helm"]["releases"],
    *(
        found
        for profile in CONFIG["profiles"]
        for found in profile.get("deploy", {}).get("helm", {}).get("releases", [])
    ),
]


def patched(config: dict[str, Any], profile: dict[str, Any]) -> dict[str, Any]:
    """Return the release's values after the patches of a profile."""
    values = dict(config["deploy"]["helm"]["releases"][0]["setValues"])
    for patch in profile.get("patches", []):
        place, _, name = patch["path"].rpartition("/")
        if place == "/deploy/helm/releases/0/setValues":
            values[name] = patch["value"]
    return values


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """Expand dotted names as helm's --set does."""
    found: dict[str, Any] = {}
    for name, value in flat.items():
        *parents, last = name.split(".")
        place = found
        for parent in parents:
            place = place.setdefault(parent, {})
        place[last] = value
    return found


def test_documented_profiles_exist() -> None:
    assert CONFIG["apiVersion"] == "skaffold/v4beta13"
    assert [profile["name"] for profile in CONFIG["profiles"]] == ["dev", "ci", "debug", "prod"]


def test_every_file_exists() -> None:
    """These are charts and values. A file that a variable names is the user's."""
    for release in RELEASES:
        assert (ROOT / release["chartPath"] / "Chart.yaml").is_file()
        for path in release["valuesFiles"]:
            assert path.startswith("{{.") or (ROOT / path).is_file()


def test_every_image_is_built() -> None:
    """Each required, deployed or verified image is an artifact, and each artifact is used."""
    built = {artifact["image"] for artifact in CONFIG["build"]["artifacts"]}
    required = {
        each["image"]
        for artifact in CONFIG["build"]["artifacts"]
        for each in artifact.get("requires", [])
    }
    templates = [text for release in RELEASES for text in release["setValueTemplates"].values()]
    deployed = {
        text.strip("{}").removeprefix(".IMAGE_").partition("_")[2].replace("_", "-")
        for text in templates
    }
    verified = {case["container"]["image"] for case in CONFIG["verify"]}
    assert required | deployed | verified == built


def test_every_target_is_a_stage_of_its_dockerfile() -> None:
    for artifact in CONFIG["build"]["artifacts"]:
        if target := artifact["docker"].get("target"):
            stages = re.findall(
                r"^FROM \S+ AS (\S+)$",
                (ROOT / artifact["docker"]["dockerfile"]).read_text(),
                re.MULTILINE,
            )
            assert target in stages


def test_image_is_built_from_its_required_image() -> None:
    """Skaffold passes the required image as an ARG with its alias.

    A default value would be resolved before that image is built.
    """
    for artifact in CONFIG["build"]["artifacts"]:
        for required in artifact.get("requires", []):
            lines = (ROOT / artifact["docker"]["dockerfile"]).read_text().splitlines()
            assert f"ARG {required['alias']}" in lines
            assert f"FROM ${{{required['alias']}}}" in lines


@pytest.mark.parametrize("name", ["dev", "ci", "debug", "prod"])
def test_values_of_each_profile_can_be_rendered(render: Render, name: str) -> None:
    """Each template is replaced by a name."""
    profile = next(profile for profile in CONFIG["profiles"] if profile["name"] == name)
    own = (
        profile.get("deploy", {})
        .get("helm", {})
        .get("releases", CONFIG["deploy"]["helm"]["releases"])[0]
    )
    values = patched(CONFIG, profile) if "setValues" in own else {}
    made = {
        key: "sha256:" + 64 * "0" if key.endswith("digest") else "made"
        for key in own["setValueTemplates"]
    }
    servers = (
        {"kafka.bootstrapServers": "", "zookeeper.connect": ""} if values.get("dev.enabled") else {}
    )
    objects = render(nested({**made, **values, **servers}))
    image = one(objects, "Deployment", "wordcount-split")["spec"]["template"]["spec"]["containers"][
        0
    ]["image"]
    assert image.startswith("made")


def test_only_dev_and_debug_replace_files_in_pods() -> None:
    """The patches remove exactly the artifacts' syncs."""
    synced = {
        number for number, artifact in enumerate(CONFIG["build"]["artifacts"]) if "sync" in artifact
    }
    (ci,) = [profile for profile in CONFIG["profiles"] if profile["name"] == "ci"]
    removed = {
        int(patch["path"].split("/")[3]) for patch in ci["patches"] if patch["op"] == "remove"
    }
    assert removed == synced
    assert patched(CONFIG, ci)["dev.sync"] is False


def test_verify_runs_the_test_of_the_chart(render: Render) -> None:
    """The command and the topics are the same."""
    (case,) = CONFIG["verify"]
    values = yaml.safe_load((ROOT / "examples" / "wordcount" / "values.yaml").read_text())
    objects = render({"test": {**values["test"], "message": "{marker}"}})
    (container,) = one(objects, "Pod", "wordcount-test")["spec"]["containers"]
    assert case["container"]["command"] == container["command"]
    assert set(case["container"]["args"]) <= set(container["args"])


def test_word_count_values_equal_the_output_of_kstorm_values(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["values", "examples.wordcount.topology:topology"])
    assert (ROOT / "examples" / "wordcount" / "values.yaml").read_text() == capsys.readouterr().out


def test_synced_code_is_a_copy(render: Render) -> None:
    """It is copied from the image to a writable volume before the service starts.

    The root is read-only.
    """
    servers = {"kafka": {"bootstrapServers": ""}, "zookeeper": {"connect": ""}}
    spec = one(
        render({"dev": {"enabled": True, "sync": True}, **servers}), "Deployment", "wordcount-split"
    )
    pod = spec["spec"]["template"]["spec"]
    copying, (service,) = pod["initContainers"][-1], pod["containers"]
    assert copying["image"] == service["image"]
    assert copying["command"] == ["cp", "-r", "/topology/.", "/code"]
    assert {"name": "code", "mountPath": "/topology"} in service["volumeMounts"]
    assert {"name": "code", "emptyDir": {}} in pod["volumes"]
    for artifact in CONFIG["build"]["artifacts"]:
        for rule in artifact.get("sync", {}).get("manual", []):
            assert rule["dest"] == "/topology"
