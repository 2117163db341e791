"""The page of a release: off unless it is asked for, with a login, and with rights to look and nothing else."""

import subprocess
from collections.abc import Callable
from typing import Any

from kstorm_ui.settings import ACTIONS, UiSettings
from tests.chart.conftest import Objects, Render, one

_PODS = (("Deployment", "wordcount-ui"), ("Deployment", "wordcount-sink"))
_FILES = ("kafka", "tls", "zookeeper", "zookeeper-tls")
_ON: dict[str, Any] = {"ui": {"enabled": True, "existingSecret": {"name": "page"}}}


def named(objects: Objects, kind: str) -> list[str]:
    return [each["metadata"]["name"] for each in objects if each["kind"] == kind]


def test_without_being_asked_for_there_is_none(render: Render) -> None:
    """Nor an account, nor a policy."""
    assert not [each for each in render() if each["metadata"]["name"].endswith("-ui")]


def test_its_role_lets_it_look_and_nothing_else(render: Render) -> None:
    """Workloads and pods may be listed, of its own namespace; no Secret, no log, no proxy to what a pod serves."""
    rules = one(render(_ON), "Role", "wordcount-ui")["rules"]
    allowed = {
        (resource, verb)
        for rule in rules
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == {("deployments", "list"), ("statefulsets", "list"), ("pods", "list")}
    assert "wordcount-ui" not in named(render(_ON), "ClusterRole")


def test_it_reads_logs_only_if_told_to(render: Render) -> None:
    """The right and the page's setting come together."""
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


def test_its_token_is_its_own(render: Render) -> None:
    """The pod's account is not that of the topology's pods, and the token for people comes from a file."""
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


def test_an_account_that_is_there_is_taken(render: Render) -> None:
    """Then no Role is made for it either."""
    more = {"ui": {**_ON["ui"], "serviceAccount": {"create": False, "name": "viewer"}}}
    objects = render(more)
    assert "wordcount-ui" not in [*named(objects, "ServiceAccount"), *named(objects, "Role")]
    pod = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "viewer"


def test_only_who_is_named_comes_to_it(render: Render) -> None:
    """By its port; without a name the release's own namespace."""
    peers = [{"podSelector": {"matchLabels": {"app": "login"}}}]
    for given, expected in (([], [{"podSelector": {}}]), (peers, peers)):
        objects = render({"ui": {**_ON["ui"], "from": given}})
        [rule] = one(objects, "NetworkPolicy", "wordcount-ui")["spec"]["ingress"]
        assert rule == {"ports": [{"port": 8480}], "from": expected}


def test_its_service_finds_it_alone(render: Render) -> None:
    """And the topology's headless Service does not."""
    objects = render(_ON)
    labels = one(objects, "Deployment", "wordcount-ui")["spec"]["template"]["metadata"]["labels"]
    assert one(objects, "Service", "wordcount-ui")["spec"]["selector"].items() <= labels.items()
    assert "kstorm.io/topology" not in labels


def test_it_reaches_kafka_and_zookeeper_as_the_services_do(render: Render) -> None:
    """With the same logins: who has a message, and where offsets are, it asks of both."""
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


def test_it_shows_values_only_if_told_to(render: Render) -> None:
    """Pages of messages hide them else."""
    for more, told in (({}, []), ({"showValues": True}, ["true"])):
        pod = one(render({"ui": {**_ON["ui"], **more}}), "Deployment", "wordcount-ui")["spec"][
            "template"
        ]["spec"]
        env = pod["containers"][0]["env"]
        assert [each["value"] for each in env if each["name"] == "KSTORM_UI_SHOW_VALUES"] == told


def test_it_does_only_what_is_named(render: Render) -> None:
    """Nothing else is."""
    for actions, told in (([], []), (["drain", "replay"], ["drain,replay"])):
        pod = one(render({"ui": {**_ON["ui"], "actions": actions}}), "Deployment", "wordcount-ui")[
            "spec"
        ]["template"]
        env = pod["spec"]["containers"][0]["env"]
        assert [each["value"] for each in env if each["name"] == "KSTORM_UI_ACTIONS"] == told


def test_the_actions_are_those_of_the_page(
    template: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    """The schema lets each through, and no other."""
    every = {"ui": {**_ON["ui"], "showValues": True, "actions": [*ACTIONS]}}
    assert template(every).returncode == 0
    every["ui"]["actions"] = ["kill"]
    assert template(every).returncode != 0


def test_who_scales_may_scale_this_release_and_nothing_else(render: Render) -> None:
    """By the scale subresource of its own workloads; any other action takes no right more."""
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
