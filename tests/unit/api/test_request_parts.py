"""Paths, versions, zones, times and credentials: what a request says, in tables."""

import base64
from pathlib import Path
from typing import Any

import bcrypt
import msgspec
import pytest

from minova import errors
from minova.api.compute.servers.zone_target import Place, place_of
from minova.api.http import auth, microversions
from minova.api.http.body import decode
from minova.api.http.middleware import canonical, project_of
from minova.api.http.query import page_size
from minova.api.image.images import any_of
from minova.codecs import Decoder

RESOURCES = frozenset({"servers", "flavors", "os-services"})
PATHS = {
    "/": ("/", None),
    "": ("/", None),
    "/v2.1/": ("/v2.1", None),
    "/v2.1/servers/": ("/v2.1/servers", None),
    "/v2.1/servers/detail": ("/v2.1/servers/detail", None),
    "/v2.1/6f70656e737461636b20342065766572/servers/detail": (
        "/v2.1/servers/detail",
        "6f70656e737461636b20342065766572",
    ),
    "/v2.1/demo/flavors": ("/v2.1/flavors", "demo"),
    "/v2.1/servers/servers": ("/v2.1/servers/servers", None),
    "/v2.1/demo/nothing": ("/v2.1/demo/nothing", None),
    "/compute/v2.1/servers": ("/v2.1/servers", None),
    "/image/v2/images": ("/v2/images", None),
    "/image": ("/image", None),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items())
def test_paths_are_told_from_project_ids(path: str, expected: tuple[str, str | None]) -> None:
    assert canonical(path, RESOURCES) == expected


def identity(project_id: str | None) -> auth.Identity:
    return auth.Identity(user_id="u", project_id=project_id, is_admin=False)


def test_the_project_is_that_of_the_credentials_or_of_the_path() -> None:
    assert project_of(identity("p"), None) == "p"
    assert project_of(identity("p"), "p") == "p"
    assert project_of(identity(None), "q") == "q"
    assert project_of(identity(None), None) == "admin"


@pytest.mark.parametrize(("credentials", "in_path"), [("p", "q"), (None, "a b"), (None, "<x>"), (None, "x" * 256)])
def test_a_path_with_another_project_is_malformed(credentials: str | None, in_path: str) -> None:
    with pytest.raises(errors.BadRequest, match="Malformed request URL"):
        project_of(identity(credentials), in_path)


VERSIONS: dict[tuple[str | None, str | None], str] = {
    (None, None): "2.1",
    ("compute 2.1", None): "2.1",
    ("volume 3.0", None): "2.1",
    ("volume 3.0, compute 2.90", None): "2.90",
    (None, "2.25"): "2.25",
    ("compute latest", "2.1"): "latest",
}


@pytest.mark.parametrize(("headers", "expected"), VERSIONS.items())
def test_the_version_that_headers_ask_for(headers: tuple[str | None, str | None], expected: str) -> None:
    assert microversions.asked(*headers) == expected


@pytest.mark.parametrize(
    ("version", "error"),
    [
        ("2.2", microversions.NotServed),
        ("3.0", microversions.NotServed),
        ("2.0", microversions.NotServed),
        ("two", errors.BadRequest),
        ("2", errors.BadRequest),
        ("2.01", errors.BadRequest),
    ],
)
def test_a_version_that_is_not_served(version: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        microversions.check(version)


PLACES = {
    None: Place(),
    "": Place(),
    "nova": Place(zone="nova"),
    "nova:h": Place(zone="nova", host="h"),
    "nova:h:n": Place(zone="nova", host="h", node="n"),
    "nova::n": Place(zone="nova", node="n"),
    ":h": Place(host="h"),
}


@pytest.mark.parametrize(("asked", "expected"), PLACES.items())
def test_what_an_availability_zone_names(asked: str | None, expected: Place) -> None:
    assert place_of(asked) == expected
    assert place_of(asked).forced == (expected.host is not None or expected.node is not None)


@pytest.mark.parametrize("asked", ["a:b:c:d", "x" * 256, "a\nb"])
def test_a_zone_that_cannot_be_read(asked: str) -> None:
    with pytest.raises(errors.BadRequest, match="availability_zone"):
        place_of(asked)


@pytest.mark.parametrize(("limit", "expected"), [(None, 100), (0, 0), (7, 7), (101, 100), (10**12, 100)])
def test_a_page_is_as_large_as_asked_and_allowed(limit: int | None, expected: int) -> None:
    assert page_size(limit, 100) == expected


def test_a_negative_limit_is_refused() -> None:
    with pytest.raises(errors.BadRequest, match="limit"):
        page_size(-1, 100)


def test_filters_take_one_value_or_several() -> None:
    assert any_of(None) is None
    assert any_of("a") == ("a",)
    assert any_of('in:a,"b, c"') == ("a", "b, c")
    assert any_of("in:") == ()


class _Body(msgspec.Struct, forbid_unknown_fields=True):
    count: int
    on: bool = False


_BODY, _ANY = Decoder(_Body, strict=False), Decoder(Any, strict=False)


def test_numbers_and_booleans_may_come_as_strings() -> None:
    assert decode(b'{"count": "3", "on": "true"}', _BODY) == _Body(count=3, on=True)


BODIES = {
    b"": "has none",
    b"{": "Malformed",
    b"[1]": "Invalid input",
    b'{"count": "x"}': r"\$\.count",
    b'{"count": 1, "coutn": 2}': "coutn",
    b"{}": "count",
    b'{"count": 1' + b"]" * 10: "Malformed",
    b'{"\xff": 1, "count": 1}': "Malformed|Invalid",
    b'{"count": 1, "on": "\\ud800"}': "Malformed",
    b"[" * 100000: "Malformed|Invalid",
}


@pytest.mark.parametrize(("raw", "why"), BODIES.items())
def test_a_wrong_body_is_refused_with_its_place(raw: bytes, why: str) -> None:
    with pytest.raises(errors.BadRequest, match=why):
        decode(raw, _BODY)
    if raw.startswith(b"[["):
        with pytest.raises(errors.BadRequest, match=r"nested|Malformed"):
            decode(raw, _ANY)


# -- credentials ---------------------------------------------------------------------------------------------------------


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


def test_credentials_of_a_header() -> None:
    assert auth.credentials(basic(b"alice:a:b")) == ("alice", b"a:b")
    assert auth.credentials(basic("bjørn:å".encode())) == ("bjørn", "å".encode())


@pytest.mark.parametrize("header", [None, "", "Bearer x", "Basic", "Basic %%%", basic(b"alice"), basic(b"\xff:x")])
def test_credentials_that_cannot_be_read(header: str | None) -> None:
    with pytest.raises(auth.Unauthenticated):
        auth.credentials(header)


def test_an_htpasswd_file() -> None:
    assert auth.parse_htpasswd("# people\n\nalice:$2y$05$abc\nbob:$2b$05$x\n") == {
        "alice": b"$2y$05$abc",
        "bob": b"$2b$05$x",
    }


@pytest.mark.parametrize("line", ["alice:{SHA}x", "alice:$apr1$x", "alice", ":$2y$05$x"])
def test_an_htpasswd_line_without_bcrypt_names_its_number(line: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="line 2"):
        auth.parse_htpasswd(f"# people\n{line}\n")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_loopback(address: str) -> None:
    assert auth.is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.1", "controller", "localhost.example.org"])
def test_not_loopback(address: str) -> None:
    assert not auth.is_loopback(address)


class Request:
    """All that an authenticator reads."""

    def __init__(self, user: str, password: str) -> None:
        self._header = basic(f"{user}:{password}".encode())

    def get_header(self, name: str) -> str | None:
        return self._header if name == "Authorization" else None


def test_a_checked_password_is_remembered_and_forgotten_when_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "htpasswd"
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file.write_text(f"alice:{hashed}\nadmin:{hashed}\n")
    now = 0.0
    check: Any = auth.HttpBasic(file, frozenset({"admin"}), clock=lambda: now)
    assert check(Request("alice", "secret")) == auth.Identity(user_id="alice", project_id="alice", is_admin=False)
    assert check(Request("admin", "secret")).is_admin
    for user, password in (("alice", "Secret"), ("bob", "secret"), ("", "")):
        with pytest.raises(auth.Unauthenticated):
            check(Request(user, password))
    assert check(Request("alice", "secret")).user_id == "alice"
    now = auth.REMEMBERED_FOR + 1
    assert check(Request("alice", "secret")).user_id == "alice"
    file.write_text(f"admin:{hashed}\n")
    with pytest.raises(auth.Unauthenticated):
        check(Request("alice", "secret"))


def test_a_missing_htpasswd_file_names_the_option(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="http_basic_auth_user_file"):
        auth.HttpBasic(tmp_path / "none", frozenset())
