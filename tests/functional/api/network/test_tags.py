"""Tags of each kind of resource; filters by them; changes of one revision."""

from typing import Any

import pytest
from sqlalchemy import select

from minova.db import models
from tests.functional.api.conftest import Cloud
from tests.functional.api.network.test_networks import UNKNOWN, listed, make, network, port, subnet

ROOT = "/network/v2.0"
KINDS = ("network", "subnet", "subnetpool", "port", "security_group", "security_group_rule", "address_group")
CHANGEABLE = tuple(kind for kind in KINDS if kind != "security_group_rule")


def made(cloud: Cloud, kind: str) -> str:
    """The path of a new resource."""
    collection = f"{ROOT}/{kind.replace('_', '-')}s"
    bodies: dict[str, dict[str, Any]] = {
        "security_group": {"name": "g"},
        "subnetpool": {"name": "p", "prefixes": ["10.0.0.0/8"]},
        "address_group": {"name": "a"},
    }
    if kind == "security_group_rule":
        group_id = made(cloud, "security_group").rpartition("/")[2]
        bodies[kind] = {"security_group_id": group_id, "direction": "ingress"}
    if kind in bodies:
        return f"{collection}/{cloud.ask('POST', collection, {kind: bodies[kind]})[1][kind]['id']}"
    on = network(cloud)
    of_kind = {"network": lambda: on, "subnet": lambda: subnet(cloud, on), "port": lambda: port(cloud, on)}
    return f"{collection}/{of_kind[kind]()['id']}"


@pytest.mark.parametrize("kind", KINDS)
def test_tags_of_each_kind(cloud: Cloud, kind: str) -> None:
    path = made(cloud, kind)
    before = cloud.get(path)[kind]
    assert (before["tags"], cloud.get(f"{path}/tags")) == ([], {"tags": []})
    assert cloud.ask("PUT", f"{path}/tags", {"tags": ["red", "blue"]}) == (200, {"tags": ["blue", "red"]})
    assert cloud.ask("PUT", f"{path}/tags/a b", None)[0] == 201
    assert cloud.ask("POST", f"{path}/tags", {"tags": ["red", "new"]}) == (200, {"tags": ["red", "new"]})
    shown = cloud.get(path)[kind]
    assert shown["tags"] == ["a b", "blue", "new", "red"]
    assert shown["revision_number"] == before["revision_number"] + 3
    assert cloud.get(f"{path}?fields=tags") == {kind: {"tags": shown["tags"]}}
    assert [cloud.ask("GET", f"{path}/tags/{tag}")[0] for tag in ("red", "green")] == [204, 404]
    if kind in CHANGEABLE:
        assert cloud.ask("PUT", path, {kind: {"name": "n"}})[1][kind]["tags"] == shown["tags"]
    assert [each["id"] for each in listed(cloud, kind, "tags=red,new")] == [shown["id"]]
    assert shown["id"] not in [each["id"] for each in listed(cloud, kind, "not-tags=red")]
    assert cloud.ask("DELETE", f"{path}/tags/red") == (204, None)
    status, answer = cloud.ask("DELETE", f"{path}/tags/red")
    assert (status, answer["NeutronError"]["type"]) == (404, "TagNotFound")
    assert cloud.ask("PUT", f"{path}/tags", {"tags": ["one"]})[1] == {"tags": ["one"]}
    assert cloud.ask("DELETE", f"{path}/tags") == (204, None)
    assert cloud.get(f"{path}/tags") == {"tags": []}


@pytest.mark.parametrize("kind", KINDS)
def test_tags_go_with_their_resource(cloud: Cloud, kind: str) -> None:
    path = made(cloud, kind)
    assert cloud.ask("PUT", f"{path}/tags", {"tags": ["red"]})[0] == 200
    assert cloud.ask("DELETE", path)[0] == 204
    with cloud.db.read() as session:
        assert session.scalars(select(models.NetworkTag.tag)).all() == []
    assert cloud.ask("PUT", f"{path}/tags", {"tags": ["red"]})[0] == 404


def test_tags_of_rules_go_with_their_group(cloud: Cloud) -> None:
    rule = cloud.get(path := made(cloud, "security_group_rule"))["security_group_rule"]
    assert cloud.ask("PUT", f"{path}/tags/red")[0] == 201
    assert cloud.ask("DELETE", f"{ROOT}/security-groups/{rule['security_group_id']}")[0] == 204
    with cloud.db.read() as session:
        assert session.scalars(select(models.NetworkTag.tag)).all() == []


def test_tags_of_subnets_go_with_their_network(cloud: Cloud) -> None:
    on = network(cloud)
    front = subnet(cloud, on)
    cloud.ask("PUT", f"{ROOT}/subnets/{front['id']}/tags/red")
    assert cloud.ask("DELETE", f"{ROOT}/networks/{on['id']}")[0] == 204
    with cloud.db.read() as session:
        assert session.scalars(select(models.NetworkTag.tag)).all() == []


def test_listings_are_filtered_by_tags(cloud: Cloud) -> None:
    tags: dict[str, list[str]] = {"a": ["red", "blue"], "b": ["red"], "c": ["Red"], "d": []}
    for name, some in tags.items():
        new_network = network(cloud, name=name)
        assert cloud.ask("PUT", f"{ROOT}/networks/{new_network['id']}/tags", {"tags": some})[0] == 200
    expected = {
        "tags=red": "ab",
        "tags=red,blue": "a",
        "tags=red&tags=blue": "a",
        "tags-any=blue,Red": "ac",
        "not-tags=red": "cd",
        "not-tags=red,blue": "bcd",
        "not-tags-any=blue,Red": "bd",
        "tags=red&not-tags=blue": "b",
        "tags=r%25": "",
    }
    names_by_query = {
        query: "".join(network["name"] for network in listed(cloud, "network", query)) for query in expected
    }
    assert names_by_query == expected
    page = cloud.get(f"{ROOT}/networks", query_string="tags-any=red,Red&limit=2")
    assert [network["name"] for network in page["networks"]] == ["a", "b"]
    (link,) = page["networks_links"]
    assert [network["name"] for network in cloud.get(link["href"].removeprefix("http://localhost"))["networks"]] == [
        "c"
    ]


def test_ports_are_made_with_tags(cloud: Cloud) -> None:
    on = network(cloud)
    assert port(cloud, on, tags=["b", "a"])["tags"] == ["a", "b"]
    bodies = [{"network_id": on["id"], "tags": ["x"]}, {"network_id": on["id"]}]
    status, answer = cloud.ask("POST", f"{ROOT}/ports", {"ports": bodies})
    assert (status, [port["tags"] for port in answer["ports"]]) == (201, [["x"], []])
    assert len(listed(cloud, "port", "tags=x")) == 1


def test_limits_of_tags(cloud: Cloud) -> None:
    path = made(cloud, "network")
    most = [f"t{number}" for number in range(50)]
    for bad in (["x" * 256], ["a", "a"], [*most, "one"], "a", [1]):
        assert cloud.ask("PUT", f"{path}/tags", {"tags": bad})[0] == 400, bad
    assert cloud.ask("PUT", f"{path}/tags", {"tags": most})[0] == 200
    status, answer = cloud.ask("PUT", f"{path}/tags/one")
    assert (status, "limit of 50" in answer["NeutronError"]["message"]) == (400, True)
    assert cloud.ask("PUT", f"{path}/tags/t1")[0] == 201
    assert cloud.ask("PUT", f"{path}/tags/{'x' * 256}")[0] == 400
    assert cloud.ask("PUT", f"{ROOT}/networks/{UNKNOWN}/tags/x")[0] == 404
    assert cloud.get(f"{path}/tags")["tags"] == sorted(most)


@pytest.mark.parametrize("kind", CHANGEABLE)
def test_change_requires_the_revision_that_it_names(cloud: Cloud, kind: str) -> None:
    path = made(cloud, kind)
    revision = cloud.get(path)[kind]["revision_number"]

    def send(method: str, header: str, body: Any = None) -> tuple[int, Any]:
        return cloud.ask(method, path, body, headers={"If-Match": header})

    change = {kind: {"name": "n"}}
    status, answer = send("PUT", "revision_number=99", change)
    assert (status, answer["NeutronError"]) == (
        412,
        {
            "type": "RevisionNumberConstraintFailed",
            "message": f"Constrained to 99, but current revision is {revision}",
            "detail": "",
        },
    )
    assert send("PUT", f"revision_number={revision}", change)[0] == 200
    assert send("PUT", f"revision_number={revision}", change)[0] == 412
    assert send("DELETE", f"revision_number={revision}")[0] == 412
    for wrong in ("*", "revision_number=x", "7"):
        assert send("DELETE", wrong)[0] == 400
    assert send("DELETE", f"revision_number={revision + 1}")[0] == 204


def test_overtaken_change_of_one_revision_is_refused(cloud: Cloud) -> None:
    blue = make(cloud, "network", name="blue")
    path = f"{ROOT}/networks/{blue['id']}"
    overtaken: list[str] = []

    def before(method: str) -> None:
        if method == "update_network" and not overtaken:
            overtaken.append(method)
            cloud.ask("PUT", path, {"network": {"name": "first"}})

    cloud.conductor.before = before
    status, _ = cloud.ask("PUT", path, {"network": {"name": "x"}}, headers={"If-Match": "revision_number=1"})
    assert (status, cloud.get(path)["network"]["name"]) == (412, "first")


def test_overtaken_deletion_of_one_revision_is_refused(cloud: Cloud) -> None:
    path = made(cloud, "security_group_rule")
    revision = cloud.get(path)["security_group_rule"]["revision_number"]

    def before(method: str) -> None:
        if method == "delete_security_group_rule":
            assert cloud.ask("PUT", f"{path}/tags/red")[0] == 201

    cloud.conductor.before = before
    header = {"If-Match": f"revision_number={revision}"}
    status, _ = cloud.ask("DELETE", path, headers=header)
    assert (status, cloud.get(path)["security_group_rule"]["tags"]) == (412, ["red"])
