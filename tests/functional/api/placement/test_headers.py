"""Versions, formats, times, and who may."""

import base64
import re
from email.utils import parsedate_to_datetime
from pathlib import Path

import bcrypt
import pytest

from minova import conf as configuration
from minova import errors
from minova.api.access.auth import placement_authenticator
from tests.functional.api.placement.conftest import PlacementCloud
from tests.functional.scheduler.cloud import named

RP = f"/resource_providers/{named('a')}"


@pytest.mark.parametrize(
    ("asked", "answered"),
    [
        ("placement 1.10", "1.10"),
        ("placement latest", "1.39"),
        ("compute 2.1, placement 1.5", "1.5"),
        ("PLACEMENT 1.5", "1.5"),
        ("compute 2.1", "1.0"),
    ],
)
def test_the_version_that_is_asked_for_is_answered(cloud: PlacementCloud, asked: str, answered: str) -> None:
    answer = cloud.ask("GET", "/", version=None, OpenStack_API_Version=asked)
    assert answer.headers["openstack-api-version"] == f"placement {answered}"
    assert "openstack-api-version" in answer.headers["vary"]


def test_without_a_version_it_is_the_first(cloud: PlacementCloud) -> None:
    assert cloud.ask("GET", "/", version=None).headers["openstack-api-version"] == "placement 1.0"


@pytest.mark.parametrize(
    ("version", "status"), [("1.40", 406), ("0.9", 406), ("2.0", 406), ("new", 400), ("1.2.3", 400)]
)
def test_a_version_that_there_is_not_is_refused(cloud: PlacementCloud, version: str, status: int) -> None:
    answer = cloud.ask("GET", "/", version=version)
    assert (answer.status, version in answer.error["detail"]) == (status, True)
    assert answer.error.get("max_version") == ("1.39" if status == 406 else None)


@pytest.mark.parametrize(
    ("accept", "status", "kind"),
    [
        ("application/json", 404, "application/json"),
        ("*/*", 404, "application/json"),
        ("text/html", 406, "text/html"),
        ("text/plain", 406, "text/plain"),
    ],
)
def test_an_error_has_the_form_that_the_client_takes(
    cloud: PlacementCloud, accept: str, status: int, kind: str
) -> None:
    answer = cloud.ask("GET", RP, Accept=accept)
    assert (answer.status, answer.headers["content-type"].partition(";")[0]) == (status, kind)


@pytest.mark.parametrize(
    ("kind", "status", "words"),
    [
        ("text/plain", 415, "The media type text/plain is not supported, use application/json"),
        ("", 400, "content-type header required"),
    ],
)
def test_a_body_must_be_json(cloud: PlacementCloud, kind: str, status: int, words: str) -> None:
    answer = cloud.ask("POST", "/resource_providers", '{"name": "x"}', Content_Type=kind)
    assert (answer.status, words in answer.error["detail"]) == (status, True)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/resource_providers",
        RP,
        f"{RP}/inventories",
        f"{RP}/inventories/VCPU",
        f"{RP}/usages",
        f"{RP}/aggregates",
        f"{RP}/traits",
        f"{RP}/allocations",
        "/traits",
        "/traits/CUSTOM_FAST",
        "/resource_classes",
        "/resource_classes/VCPU",
        "/resource_classes/CUSTOM_GOLD",
        f"/allocations/{named('one')}",
        f"/allocations/{named('nobody')}",
        "/usages?project_id=p",
        "/allocation_candidates?resources=VCPU:1",
    ],
)
def test_from_1_15_on_it_says_when_what_is_shown_was_changed(stocked: PlacementCloud, path: str) -> None:
    before = stocked.ask("GET", path, version="1.14").headers
    assert "last-modified" not in before
    assert "cache-control" not in before
    after = stocked.ask("GET", path, version="1.15").headers
    assert after["cache-control"] == "no-cache"
    assert re.fullmatch(r"\w+, \d+ \w+ \d{4} [\d:]+ GMT", after["last-modified"])


def test_last_modified_is_of_the_thing_and_not_of_now(stocked: PlacementCloud) -> None:
    with stocked.db.write() as session:
        session.connection().exec_driver_sql("UPDATE resource_providers SET updated_at = 1000000000.5 WHERE name = 'a'")
    shown = parsedate_to_datetime(stocked.ask("GET", RP).headers["last-modified"])
    assert shown.timestamp() == 1000000000
    stocked.right("PUT", RP, {"name": "renamed"})
    assert parsedate_to_datetime(stocked.ask("GET", RP).headers["last-modified"]) > shown


@pytest.mark.parametrize(
    ("token", "path", "status"),
    [
        ("", "/", 200),
        ("", "/resource_providers", 401),
        ("", "/nothing", 401),
        ("admin", "/resource_providers", 200),
        ("admin:p", "/resource_providers", 200),
        ("user", "/resource_providers", 403),
        ("user:p", "/usages?project_id=p", 200),
        ("user:p", "/usages?project_id=q", 403),
        ("user", "/nothing", 404),
    ],
)
def test_noauth2_believes_the_token(cloud: PlacementCloud, token: str, path: str, status: int) -> None:
    answer = cloud.ask("GET", path, X_Auth_Token=token)
    assert answer.status == status
    if status == 403:
        assert "Policy does not allow" in answer.error["detail"]


def test_http_basic_is_minova_apis_own(folder: Path) -> None:
    users = folder / "htpasswd"
    lines = [f"{user}:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}" for user in ("admin", "ann")]
    users.write_text("\n".join(lines))
    cloud = PlacementCloud(folder, placement__auth_strategy="http_basic", api__http_basic_auth_user_file=str(users))

    def asked(user: str, password: str, path: str) -> int:
        basic = base64.b64encode(f"{user}:{password}".encode()).decode()
        return cloud.ask("GET", path, Authorization=f"Basic {basic}").status

    assert asked("admin", "secret", "/resource_providers") == 200
    assert asked("admin", "wrong", "/resource_providers") == 401
    assert asked("ann", "secret", "/resource_providers") == 403
    assert asked("ann", "secret", "/usages?project_id=ann") == 200
    refused = cloud.ask("GET", "/resource_providers")
    assert (refused.status, refused.headers["www-authenticate"].startswith("Basic")) == (401, True)
    cloud.close()


@pytest.mark.parametrize("strategy", ["noauth", "noauth2"])
def test_who_believes_everybody_listens_on_loopback_only(strategy: str) -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("auth_strategy", strategy, group="placement")
    conf.set_override("listen", "192.0.2.1", group="placement")
    with pytest.raises(errors.InvalidConfiguration, match=rf"{strategy}.*\[placement\] listen.*192\.0\.2\.1"):
        placement_authenticator(conf)


def test_pages_of_other_origins_may_ask_only_where_they_are_named(folder: Path) -> None:
    page = "https://dashboard.example.com"
    cloud = PlacementCloud(folder, cors__allowed_origin=[page])
    answer = cloud.ask("OPTIONS", "/resource_providers", Origin=page, X_Auth_Token="")
    assert (answer.status, answer.headers["access-control-allow-origin"]) == (200, page)
    assert "OpenStack-API-Version" in answer.headers["access-control-allow-headers"]
    other = cloud.ask("GET", "/", Origin="https://elsewhere.example.com")
    assert "access-control-allow-origin" not in other.headers
    cloud.close()
