"""What a tenant may do with `local` networks: hosts reach a network only if an administrator wants it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users

ROOT = "/network/v2.0"


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    made = with_users(tmp_path)
    yield made
    made.close()


def ask(cloud: Cloud, user: str, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    return cloud.ask(method, f"{ROOT}/{path}", body, headers=login(user))


def make(cloud: Cloud, user: str, kind: str, **values: Any) -> Any:
    status, answer = ask(cloud, user, "POST", f"{kind}s", {kind: values})
    assert status == 201, answer
    return answer[kind]


def test_tenant_neither_makes_a_network_reachable_nor_sees_which_are(cloud: Cloud) -> None:
    assert ask(cloud, "alice", "POST", "networks", {"network": {"minova:reachable": True}})[0] == 403
    network = make(cloud, "alice", "network")
    assert "minova:reachable" not in network
    path = f"networks/{network['id']}"
    for reachable in (True, False):
        assert ask(cloud, "alice", "PUT", path, {"network": {"minova:reachable": reachable}})[0] == 403
    assert ask(cloud, "admin", "PUT", path, {"network": {"minova:reachable": True}})[0] == 200
    assert ask(cloud, "admin", "GET", path)[1]["network"]["minova:reachable"]
    assert "minova:reachable" not in ask(cloud, "alice", "GET", path)[1]["network"]
