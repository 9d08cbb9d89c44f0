"""Tokens of a real Keystone: what each may do, and what is refused."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import urllib3

from tests.cluster import Cluster
from tests.servers.keystone import DOMAIN, PASSWORD, Keystone, of_project
from tests.waiting import wait_for

DEMO = of_project("demo")
SYSTEM = {"system": {"all": True}}
SERVERS, SERVICES = "/v2.1/servers", "/v2.1/os-services"


def get(cloud: Cluster, path: str, token: str | None, **headers: str) -> urllib3.BaseHTTPResponse:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return urllib3.request(
        "GET", cloud.url + path, headers=sent | ({"X-Auth-Token": token} if token else {}), retries=False, timeout=60
    )


def status(cloud: Cluster, path: str, token: str | None, **headers: str) -> int:
    return get(cloud, path, token, **headers).status


@pytest.mark.parametrize(
    ("user", "scope", "path", "expected"),
    [
        ("admin", None, SERVERS, 200),
        ("admin", None, SERVICES, 200),
        ("admin", None, "/image/v2/images", 200),
        ("admin", None, "/network/v2.0/networks", 200),
        ("admin", None, "/placement/resource_providers", 200),
        ("minova", of_project("service"), "/placement/resource_providers", 200),
        ("alice", DEMO, SERVERS, 200),
        ("alice", DEMO, "/image/v2/images", 200),
        ("alice", DEMO, "/network/v2.0/networks", 200),
        ("alice", DEMO, SERVICES, 403),
        ("alice", DEMO, "/placement/resource_providers", 403),
        ("rita", DEMO, SERVERS, 200),
        ("alice", "unscoped", SERVERS, 403),
        ("admin", SYSTEM, SERVERS, 403),
        ("admin", SYSTEM, SERVICES, 403),
    ],
)
def test_roles_and_scopes(cloud: Cluster, keystone: Keystone, user: str, scope: Any, path: str, expected: int) -> None:
    assert status(cloud, path, keystone.token(user, scope=scope)) == expected


def test_reader_changes_nothing(cloud: Cluster, keystone: Keystone) -> None:
    body = {"network": {"name": "n"}}
    answers = {}
    for user in ("rita", "alice"):
        headers = {"X-Auth-Token": keystone.token(user, scope=DEMO)}
        url = f"{cloud.url}/network/v2.0/networks"
        answers[user] = urllib3.request("POST", url, json=body, headers=headers, retries=False, timeout=60).status
    assert answers == {"rita": 403, "alice": 201}


def test_domain_scope_is_refused(cloud: Cluster, keystone: Keystone) -> None:
    user, role = keystone.id_of("users", "alice"), keystone.id_of("roles", "admin")
    keystone.call("PUT", f"/domains/default/users/{user}/roles/{role}")
    token = keystone.token("alice", scope={"domain": DOMAIN})
    assert status(cloud, SERVICES, token) == 403
    keystone.call("DELETE", f"/domains/default/users/{user}/roles/{role}")


def test_project_in_the_path_is_the_tokens(cloud: Cluster, keystone: Keystone) -> None:
    own, other = keystone.id_of("projects", "demo"), keystone.id_of("projects", "other")
    token = keystone.token("alice", scope=DEMO)
    assert status(cloud, f"/v2.1/{own}/servers/detail", token) == 200
    assert status(cloud, f"/v2.1/{other}/servers", token) == 400
    # Neither a token without a project nor one of the system gets a project by the path.
    assert status(cloud, f"/v2.1/{own}/servers", keystone.token("alice", scope="unscoped")) == 400
    assert status(cloud, f"/v2.1/{own}/servers", keystone.token(scope=SYSTEM)) == 400


def test_without_a_valid_token_nothing_is_told(cloud: Cluster, keystone: Keystone) -> None:
    for token in (None, "garbage"):
        answer = get(cloud, SERVERS, token, X_Roles="admin", X_Identity_Status="Confirmed", X_User_Id="u")
        assert answer.status == 401
        assert answer.headers["WWW-Authenticate"] == f'Keystone uri="{keystone.url}"'
        assert answer.json()["unauthorized"]["message"] == "The request you have made requires authentication."
    # Versions are public: clients look at them before they have a token.
    assert status(cloud, "/v2.1", None) == 200


def test_headers_add_no_rights_to_a_token(cloud: Cluster, keystone: Keystone) -> None:
    token = keystone.token("alice", scope=DEMO)
    assert status(cloud, SERVICES, token, X_Roles="admin", X_Service_Roles="service", X_Project_Id="x") == 403


def test_revoked_token(cloud: Cluster, keystone: Keystone) -> None:
    token = keystone.token("alice", scope=DEMO)
    keystone.call("DELETE", "/auth/tokens", X_Subject_Token=token)
    assert status(cloud, SERVERS, token) == 401


def test_token_of_a_disabled_user(cloud: Cluster, keystone: Keystone) -> None:
    user = keystone.add_user("daisy", demo="member")
    token = keystone.token("daisy", scope=DEMO)
    keystone.call("PATCH", f"/users/{user}", {"user": {"enabled": False}})
    assert status(cloud, SERVERS, token) == 401


def test_token_of_a_project_in_which_its_user_has_no_role_any_more(cloud: Cluster, keystone: Keystone) -> None:
    user = keystone.add_user("norma", demo="member")
    token = keystone.token("norma", scope=DEMO)
    ids = [keystone.id_of("projects", "demo"), keystone.id_of("roles", "member")]
    keystone.call("DELETE", f"/projects/{ids[0]}/users/{user}/roles/{ids[1]}")
    assert status(cloud, SERVERS, token) == 401


def application_credential(keystone: Keystone, name: str, seconds: int = 3600, **options: Any) -> str:
    """A token by a new application credential of alice in demo; it expires after so many seconds."""
    own = keystone.token("alice", scope=DEMO)
    url = f"{keystone.url}/users/{keystone.id_of('users', 'alice')}/application_credentials"
    end = (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%f")
    answer = urllib3.request(
        "POST",
        url,
        json={"application_credential": {"name": name, "secret": PASSWORD, "expires_at": end, **options}},
        headers={"X-Auth-Token": own},
        retries=False,
        timeout=60,
    )
    assert answer.status == 201, answer.data
    application_credential_id = answer.json()["application_credential"]["id"]
    return keystone.authenticate(
        {
            "methods": ["application_credential"],
            "application_credential": {"id": application_credential_id, "secret": PASSWORD},
        }
    )


def test_application_credential_and_its_rules(cloud: Cluster, keystone: Keystone) -> None:
    token = application_credential(keystone, "all")
    assert status(cloud, SERVERS, token) == 200
    rules = [
        {"service": "compute", "method": "GET", "path": SERVERS},
        {"service": "image", "method": "GET", "path": "/image/v2/images"},
    ]
    token = application_credential(keystone, "narrow", access_rules=rules)
    paths = (SERVERS, "/image/v2/images", "/v2.1/flavors", "/network/v2.0/networks")
    assert [status(cloud, path, token) for path in paths] == [200, 200, 401, 401]


def test_expired_token_counts_with_a_services_token_alone(cloud: Cluster, keystone: Keystone) -> None:
    """A token of an application credential expires with it."""
    token = application_credential(keystone, "short", seconds=15)
    assert status(cloud, SERVERS, token) == 200
    # It expires although it is in the cache.
    wait_for("the token's end", lambda: status(cloud, SERVERS, token) == 401, 60)
    service = keystone.token("minova", scope=of_project("service"))
    assert status(cloud, SERVERS, token, X_Service_Token=service) == 200
    assert status(cloud, SERVERS, token, X_Service_Token=keystone.token("rita", scope=DEMO)) == 401
    assert status(cloud, SERVERS, token, X_Service_Token="garbage") == 401


def test_token_is_asked_for_once(cloud: Cluster, keystone: Keystone) -> None:
    """A Keystone that stops is not missed by tokens that were seen; others are 503 at once, and not 401."""
    of_member, unknown = keystone.token("alice", scope=DEMO), keystone.token("rita", scope=DEMO)
    assert status(cloud, SERVERS, of_member) == 200
    keystone.kill()
    try:
        assert status(cloud, SERVERS, of_member) == 200
        answer = get(cloud, SERVERS, unknown)
        assert (answer.status, answer.headers["Retry-After"]) == (503, "2")
        assert "Keystone" in answer.json()["serviceUnavailable"]["message"]
    finally:
        keystone.start()
    wait_for("Keystone", lambda: status(cloud, SERVERS, unknown) == 200)
