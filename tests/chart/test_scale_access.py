"""Kubernetes API access: pods of StatefulSets may read the scale, to find out if they will come
back."""

from typing import Any

import pytest

from tests.chart.conftest import Objects, Render, environment, one, pod_specs

SETS = {"wordcount-sentences", "wordcount-count", "wordcount-acker"}


def of_kind(objects: Objects, *kinds: str) -> list[dict[str, Any]]:
    return [each for each in objects if each["kind"] in kinds]


def test_account_may_only_get_the_scale_of_its_stateful_sets(render: Render) -> None:
    """The role names each one. It has no list verb and no access to pods or other releases."""
    objects = render()
    (role,) = of_kind(objects, "Role", "ClusterRole")
    (rule,) = role["rules"]
    assert (
        set(rule.pop("resourceNames"))
        == SETS
        == {each["metadata"]["name"] for each in of_kind(objects, "StatefulSet")}
    )
    assert rule == {"apiGroups": ["apps"], "resources": ["statefulsets/scale"], "verbs": ["get"]}
    (binding,) = of_kind(objects, "RoleBinding", "ClusterRoleBinding")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": role["metadata"]["name"],
    }
    account = one(objects, "ServiceAccount", "wordcount")["metadata"]
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": account["name"], "namespace": account["namespace"]}
    ]


def test_only_stateful_sets_mount_the_token(render: Render) -> None:
    specs = pod_specs(render())
    with_token = {name for name, spec in specs.items() if spec["automountServiceAccountToken"]}
    assert with_token == {f"StatefulSet/{name}" for name in SETS}
    for name in with_token:
        assert specs[name]["serviceAccountName"] == "wordcount"


@pytest.mark.parametrize("asks", [False, True])
def test_existing_account_gets_a_token_on_request(render: Render, asks: bool) -> None:
    """It may have unexpected rights, so the chart mounts its token only on request.

    The chart adds no rights.
    """
    objects = render({"serviceAccount": {"create": False, "name": "streams", "asksScale": asks}})
    assert of_kind(objects, "Role", "RoleBinding") == []
    for name, spec in pod_specs(objects).items():
        does = asks and name.startswith("StatefulSet/")
        assert spec["automountServiceAccountToken"] is does, name
        assert ("KSTORM_STATEFUL_SET" in environment(spec["containers"][0])) is does, name


def test_egress_policy_allows_stateful_sets_to_reach_the_api_server(render: Render) -> None:
    """Deployments have no such rule. The values may restrict the address."""
    closed: dict[str, Any] = {"enabled": True}
    for peers in ([], [{"ipBlock": {"cidr": "192.0.2.10/32"}}]):
        objects = render({"networkPolicy": {"egress": closed | {"apiServer": peers}}})
        policy = one(objects, "NetworkPolicy", "wordcount-scale")["spec"]
        (rule,) = policy["egress"]
        assert [each["port"] for each in rule["ports"]] == [443, 6443]
        assert rule.get("to", []) == peers
        assert policy["policyTypes"] == ["Egress"]
        for each in of_kind(objects, "Deployment", "StatefulSet"):
            labels = each["spec"]["template"]["metadata"]["labels"]
            (among,) = policy["podSelector"]["matchExpressions"]
            chosen = (
                policy["podSelector"]["matchLabels"].items() <= labels.items()
                and labels[among["key"]] in among["values"]
            )
            assert chosen == (each["kind"] == "StatefulSet"), each["metadata"]["name"]


def test_no_api_server_rule_without_need(render: Render) -> None:
    """This holds without scale queries and without an egress policy."""
    closed = {"networkPolicy": {"egress": {"enabled": True}}}
    for values in ({}, closed | {"serviceAccount": {"create": False}}):
        assert "wordcount-scale" not in [
            each["metadata"]["name"] for each in of_kind(render(values), "NetworkPolicy")
        ]
