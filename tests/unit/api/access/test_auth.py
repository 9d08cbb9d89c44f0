"""Credentials, htpasswd files and loopback addresses."""

import base64
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from minova import errors
from minova.api.access import auth, origin
from minova.api.access.authenticator import Unauthenticated
from minova.api.policies.users import Users

# 22 characters of salt, 31 of hash.
SALTED = "fbzJMUT0Vv/nk/4ATKtO8O" + "RSjcp7uegoOjGfTnSmzTQfLZuNm8D2W"


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


def test_credentials_are_parsed() -> None:
    assert auth.credentials(basic(b"alice:a:b")) == ("alice", b"a:b")
    assert auth.credentials(basic("bjørn:å".encode())) == ("bjørn", "å".encode())


@pytest.mark.parametrize("header", [None, "", "Bearer x", "Basic", "Basic %%%", basic(b"alice"), basic(b"\xff:x")])
def test_malformed_credentials_are_refused(header: str | None) -> None:
    with pytest.raises(Unauthenticated):
        auth.credentials(header)


def test_htpasswd_file_is_parsed() -> None:
    text = f"# people\n\nalice:$2y$05${SALTED}\nbob:$2b$31${SALTED}\n"
    hashes = {"alice": b"$2y$05$", "bob": b"$2b$31$"}
    assert auth.parse_htpasswd(text) == {user: start + SALTED.encode() for user, start in hashes.items()}


INVALID = [
    "alice:{SHA}x",
    "alice:$apr1$x",
    "alice",
    f":$2y$05${SALTED}",
    "alice:$2y$05$x",
    f"alice:$2y$03${SALTED}",
    f"alice:$2y$32${SALTED}",
    f"alice:$2y$05${SALTED}x",
    # No salt ends with an x. bcrypt would refuse it without a calculation, in no time.
    f"alice:$2y$05${SALTED[:21]}x{SALTED[22:]}",
]


@pytest.mark.parametrize("line", INVALID)
def test_htpasswd_line_without_bcrypt_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="line 2"):
        auth.parse_htpasswd(f"# people\n{line}\n")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_is_loopback(address: str) -> None:
    assert origin.is_loopback(address)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "192.168.1.1", "controller", "localhost.example.org"])
def test_is_not_loopback(address: str) -> None:
    assert not origin.is_loopback(address)


class AuthRequest:
    """All that an authenticator reads."""

    def __init__(self, user: str, password: str, remote_addr: str = "192.0.2.1", forwarded_for: str = "") -> None:
        self.remote_addr = remote_addr
        self._headers = {"Authorization": basic(f"{user}:{password}".encode()), "X-Forwarded-For": forwarded_for}

    def get_header(self, name: str) -> str | None:
        return self._headers.get(name)


def test_checked_password_is_cached_until_the_file_changes(tmp_path: Path) -> None:
    file = tmp_path / "htpasswd"
    hashed = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    file.write_text(f"alice:{hashed}\nadmin:{hashed}\n")
    now = 0.0
    check: Any = auth.HttpBasic(file, Users(["admin"], []), clock=lambda: now)
    assert check(AuthRequest("alice", "secret")) == Users([], []).identity("alice")
    assert "admin" in check(AuthRequest("admin", "secret")).roles
    for user, password in (("alice", "Secret"), ("bob", "secret"), ("", "")):
        with pytest.raises(Unauthenticated):
            check(AuthRequest(user, password))
    assert check(AuthRequest("alice", "secret")).user_id == "alice"
    now = auth.CACHE_SECONDS + 1
    assert check(AuthRequest("alice", "secret")).user_id == "alice"
    file.write_text(f"admin:{hashed}\n")
    with pytest.raises(Unauthenticated):
        check(AuthRequest("alice", "secret"))


def test_missing_htpasswd_file_is_refused_with_the_option(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidConfiguration, match="http_basic_auth_user_file"):
        auth.HttpBasic(tmp_path / "none", Users([], []))
