"""The web UI of a release: off by default, with a login, and with read-only rights."""

import subprocess
from collections.abc import Callable
from typing import Any

from kstorm_ui.ui_settings import ACTIONS, UiSettings
from tests.chart.conftest import Objects, Render, one

_PODS = (("Deployment", "wordcount-ui"), ("Deployment", "wordcount-sink"))
_FILES = ("kafka", "tls", "zookeeper", "zookeeper-tls")
_ON: dict[str, Any] = {"ui": {"enabled": True, "existingSecret": {"name": "page"}}}


def named(objects: Objects, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == kind]


def test_web_ui_is_off_by_default(render: Render) -> None:
    """Its account and policy are missing too."""
    assert not [each for each in render() if each["metadata"]["name"].endswith("-ui")]


def test_role_is_read_only(render: Render) -> None:
    """It may list workloads and pods of its namespace.

    It has no access to Secrets, logs or the pod proxy.
    """
    rules = one(render(_ON), "Role", "wordcount-ui")["rules"]
    allowed = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == {("deployments", "list"), ("statefulsets", "list"), ("pods", "list")}
    assert "wordcount-ui" not in named(render(_ON), "ClusterRole")


def test_logs_are_read_only_on_request(render: Render) -> None:
    """The value sets both the right and the UI's setting."""
    for logs in (False, True):
        objects = render({"ui": {**_ON["ui"], "logs": logs}})
        rules = one(objects, "Role", "wordcount-ui")["rules"]
        assert ({"apiGroups": [""], "resources": ["pods/log"], "verbs": ["get"]} in rules) is logs
        env = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["spec"]["containers"][
            0
        ]["env"]
        assert [each["value"] for each in env if each["name"] == "KSTORM_UI_LOGS"] == (
            ["true"] if logs else []
        )


def test_web_ui_has_its_own_account_and_token(render: Render) -> None:
    """The account is not that of the topology's pods. The users' token comes from a file."""
    objects = render(_ON)
    pod = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["spec"]
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == (
        "wordcount-ui",
        True,
    )
    container = pod["containers"][0]
    environment = {each["name"]: each["value"] for each in container["env"]}
    assert environment["KSTORM_UI_TOKEN_FILE"] == "/etc/kstorm/ui/token"
    known = {f"KSTORM_UI_{name.upper()}" for name in UiSettings.__dataclass_fields__}
    assert {name for name in environment if name.startswith("KSTORM_UI_")} <= known


def test_existing_account_is_used(render: Render) -> None:
    """The chart then creates no Role for it."""
    more = {"ui": {**_ON["ui"], "serviceAccount": {"create": False, "name": "viewer"}}}
    objects = render(more)
    assert "wordcount-ui" not in [*named(objects, "ServiceAccount"), *named(objects, "Role")]
    pod = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "viewer"


def test_only_named_peers_reach_the_web_ui(render: Render) -> None:
    """The default is the release's own namespace."""
    peers = [{"podSelector": {"matchLabels": {"app": "login"}}}]
    for given, expected in (([], [{"podSelector": {}}]), (peers, peers)):
        objects = render({"ui": {**_ON["ui"], "from": given}})
        [rule] = one(objects, "NetworkPolicy", "wordcount-ui")["spec"]["ingress"]
        assert rule == {"ports": [{"port": 8480}], "from": expected}


def test_service_selects_only_the_web_ui(render: Render) -> None:
    """The topology's headless Service does not select it."""
    objects = render(_ON)
    labels = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["metadata"]["labels"]
    assert one(objects, "Service", "wordcount-ui")["spec"]["selector"].items() <= labels.items()
    assert "kstorm.io/topology" not in labels


def test_web_ui_has_the_logins_of_the_services(render: Render) -> None:
    """It queries Kafka for messages and ZooKeeper for offsets."""
    objects = render(base="tls-sasl")
    pods = [one(objects, *which)["spec"]["template"]["spec"] for which in _PODS]
    logins = [
        {
            each["name"]: each["value"]
            for each in pod["containers"][0]["env"]
            if _is_login(each["name"])
        }
        for pod in pods
    ]
    assert logins[0] == logins[1]
    assert {
        "KSTORM_BOOTSTRAP_SERVERS",
        "KSTORM_ZOOKEEPER",
        "KSTORM_KAFKA_PROPERTIES_FILE",
    } <= logins[0].keys()
    for key, found in (("volumes", pods), ("volumeMounts", [pod["containers"][0] for pod in pods])):
        page, service = ([each for each in one[key] if each["name"] in _FILES] for one in found)
        assert page == service
        assert page


def test_values_are_shown_only_on_request(render: Render) -> None:
    """Otherwise the pages of messages hide them."""
    for more, told in (({}, []), ({"showValues": True}, ["true"])):
        pod = one(render({"ui": {**_ON["ui"], **more}}), "Deployment", "wordcount-ui")["spec"][
            "template"
        ]["spec"]
        env = pod["containers"][0]["env"]
        assert [each["value"] for each in env if each["name"] == "KSTORM_UI_SHOW_VALUES"] == told


def test_only_named_actions_are_enabled(render: Render) -> None:
    for actions, told in (([], []), (["drain", "replay"], ["drain,replay"])):
        pod = one(render({"ui": {**_ON["ui"], "actions": actions}}), "Deployment", "wordcount-ui")[
            "spec"
        ]["template"]
        env = pod["spec"]["containers"][0]["env"]
        assert [each["value"] for each in env if each["name"] == "KSTORM_UI_ACTIONS"] == told


def test_schema_allows_exactly_the_actions_of_the_web_ui(
    template: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    every = {"ui": {**_ON["ui"], "showValues": True, "actions": [*ACTIONS]}}
    assert template(every).returncode == 0
    every["ui"]["actions"] = ["kill"]
    assert template(every).returncode != 0


def test_scale_action_may_only_scale_this_release(render: Render) -> None:
    """It has the scale subresource of its own workloads. No other action adds a right."""
    looks = one(render(_ON), "Role", "wordcount-ui")["rules"]
    others = [name for name in ACTIONS if name not in ("scale", "edit")]
    assert (
        one(render({"ui": {**_ON["ui"], "actions": others}}), "Role", "wordcount-ui")["rules"]
        == looks
    )
    objects = render({"ui": {**_ON["ui"], "actions": ["scale"]}})
    rules = one(objects, "Role", "wordcount-ui")["rules"]
    more = [rule for rule in rules if rule not in looks]
    assert more[0] == {
        "apiGroups": ["autoscaling"],
        "resources": ["horizontalpodautoscalers"],
        "verbs": ["list"],
    }
    ours = {
        (each["kind"], each["metadata"]["name"])
        for each in objects
        if each["kind"] in ("Deployment", "StatefulSet")
        and "kstorm.io/topology" in each["metadata"]["labels"]
    }
    assert {
        (rule["resources"][0], name) for rule in more[1:] for name in rule["resourceNames"]
    } == {(f"{kind.lower()}s/scale", name) for kind, name in ours}
    assert {(*rule["apiGroups"], *rule["verbs"]) for rule in more[1:]} == {("apps", "patch")}
    assert {kind for kind, _ in ours} == {"Deployment", "StatefulSet"}


def _is_login(name: str) -> bool:
    return name.startswith(("KSTORM_BOOTSTRAP", "KSTORM_KAFKA", "KSTORM_ZOOKEEPER"))
