"""Guessing of names and passwords: slow, logged, and without a difference between a user and a stranger."""

import logging
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest

from minova import conf as configuration
from minova import errors
from minova.api.access import auth, throttle
from minova.api.access.addresses import parse_networks
from minova.api.access.auth import HttpBasic, authenticator, printable
from minova.api.access.authenticator import Unauthenticated
from minova.api.access.throttle import TooManyFailures
from minova.api.policies.users import Identity, Users
from tests.functional.api.conftest import Cloud
from tests.security.identities import login, with_users
from tests.unit.api.access.test_auth import AuthRequest

STRANGER, ADMIN = "203.0.113.9", "192.0.2.1"


class Logins:
    """An htpasswd file with these costs, and a clock that tests move."""

    def __init__(self, folder: Path, costs: dict[str, int], **more: Any) -> None:
        self.now = 1000.0
        self.file = folder / "htpasswd"
        lines = [f"{user}:{bcrypt.hashpw(b'secret', bcrypt.gensalt(cost)).decode()}\n" for user, cost in costs.items()]
        self.file.write_text("".join(lines))
        self.check: Any = HttpBasic(self.file, Users(["admin"], []), clock=lambda: self.now, **more)

    def login(self, user: str, password: str = "secret", address: str = ADMIN, **more: str) -> Identity:
        identity: Identity = self.check(AuthRequest(user, password, address, **more))
        return identity

    def fail(self, user: str, address: str, password: str = "wrong", **more: str) -> str:
        """The kind of the refusal."""
        with pytest.raises((Unauthenticated, TooManyFailures)) as caught:
            self.login(user, password, address, **more)
        return type(caught.value).__name__

    def block(self, user: str, address: str) -> None:
        for _ in range(throttle.FREE_OF_USER):
            assert self.fail(user, address) == "Unauthenticated"
        assert self.fail(user, address) == "TooManyFailures"


@pytest.fixture
def logins(tmp_path: Path) -> Logins:
    return Logins(tmp_path, {"admin": 4, "alice": 4})


def test_refusal_takes_as_long_for_every_user_as_for_an_unknown_name(tmp_path: Path) -> None:
    logins = Logins(tmp_path, {"low": 4, "middle": 8, "high": 10})
    shortest = {}
    for user in ("low", "middle", "high", "nobody", "", "x" * 1000):
        times = []
        for _ in range(3):
            before = time.thread_time()
            logins.fail(user, ADMIN)
            times.append(time.thread_time() - before)
        shortest[user[:6]] = min(times)
    assert max(shortest.values()) < 1.6 * min(shortest.values()), shortest


def test_dummy_check_follows_the_file(tmp_path: Path) -> None:
    logins = Logins(tmp_path, {"alice": 4})
    assert logins.check._cost == 4
    Logins(tmp_path, {"alice": 4, "bob": 6})
    logins.fail("nobody", ADMIN)
    assert logins.check._cost == 6


@pytest.mark.parametrize("length", [73, 100, 10_000])
def test_password_that_bcrypt_would_cut_is_refused(tmp_path: Path, length: int) -> None:
    logins = Logins(tmp_path, {})
    whole = "x" * 72
    logins.file.write_text(f"alice:{bcrypt.hashpw(whole.encode(), bcrypt.gensalt(4)).decode()}\n")
    assert logins.login("alice", whole).user_id == "alice"
    with pytest.raises(Unauthenticated, match="at most 72 bytes"):
        logins.login("alice", "x" * length)
    with pytest.raises(Unauthenticated, match="at most 72 bytes"):
        logins.login("nobody", "x" * length)
    with pytest.raises(Unauthenticated, match="NUL"):
        logins.login("alice", "a\0b")


@pytest.mark.parametrize("user", ["admin", "nobody"])
def test_guesses_are_throttled_for_users_and_unknown_names_alike(logins: Logins, user: str) -> None:
    logins.block(user, STRANGER)
    # The right password is refused, too: the answer must not tell that it is right.
    assert logins.fail(user, STRANGER, "secret") == "TooManyFailures"
    for _ in range(50):
        logins.now += 61.0
        assert logins.fail(user, STRANGER) == "Unauthenticated"
        assert logins.fail(user, STRANGER) == "TooManyFailures"


def test_password_in_the_cache_cannot_be_guessed_faster(logins: Logins) -> None:
    logins.login("admin", address=ADMIN)
    logins.block("admin", STRANGER)
    assert logins.fail("admin", STRANGER, "secret") == "TooManyFailures"


def test_stranger_cannot_lock_an_administrator_out(logins: Logins) -> None:
    logins.block("admin", STRANGER)
    assert "admin" in logins.login("admin", address=ADMIN).roles
    logins.now += auth.CACHE_SECONDS + 1
    for number in range(300):
        logins.fail("admin", f"198.51.100.{number % 250}")
    assert "admin" in logins.login("admin", address=ADMIN).roles


def test_user_logs_in_again_after_the_delay(logins: Logins) -> None:
    logins.block("alice", ADMIN)
    logins.now += 1.0
    assert logins.login("alice").user_id == "alice"
    assert logins.fail("alice", ADMIN) == "Unauthenticated"


def test_many_requests_at_once_with_the_right_password_are_one_attempt(tmp_path: Path) -> None:
    logins = Logins(tmp_path, {"alice": 10})
    answers: list[Any] = []
    together = threading.Barrier(16)

    def ask() -> None:
        together.wait()
        try:
            answers.append(logins.login("alice").user_id)
        except errors.MinovaError as error:
            answers.append(error)

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["alice"] * 16


def test_guesses_at_once_are_throttled(tmp_path: Path) -> None:
    logins = Logins(tmp_path, {"alice": 8})
    kinds: list[str] = []
    threads = [
        threading.Thread(target=lambda guess=f"g{number}": kinds.append(logins.fail("alice", STRANGER, guess)))
        for number in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(kinds) == ["TooManyFailures"] * 11 + ["Unauthenticated"] * 5


def test_failure_is_logged_with_user_and_address(logins: Logins, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(throttle.FREE_OF_USER):
        logins.fail("alice", STRANGER)
    for _ in range(10):
        logins.fail("alice", STRANGER)
    logins.fail('a\nb" from 10.0.0.1\x1b[31m\u202eø', STRANGER)
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    lines = [line for line in lines if line.startswith("Login")]
    assert lines[0] == f'Login failed from {STRANGER}: user "alice", 1 in a row'
    assert lines[4] == f'Login failed from {STRANGER}: user "alice", 5 in a row; the next attempt must wait 1 s'
    shown = r"a\u000ab\u0022 from 10.0.0.1\u001b[31m\u202e\u00f8"
    assert lines[5:] == [f'Login failed from {STRANGER}: user "{shown}", 1 in a row']
    assert "wrong" not in caplog.text
    assert len(printable("x" * 10_000)) < 100


def test_low_cost_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Logins(tmp_path, {"a": 4, "b": 5, "c": 10})
    assert "the hashes of 2 users have a bcrypt cost below 10; `htpasswd -B -C 12`" in caplog.text


def test_client_behind_a_trusted_proxy_has_its_own_address(tmp_path: Path) -> None:
    logins = Logins(tmp_path, {"alice": 4}, trusted_proxies=parse_networks("o", ["10.0.0.1"]))
    for _ in range(throttle.FREE_OF_USER):
        # The part before the last comma is the stranger's own invention.
        logins.fail("alice", "10.0.0.1", forwarded_for=f"{ADMIN}, {STRANGER}")
    assert logins.fail("alice", "10.0.0.1", forwarded_for=STRANGER) == "TooManyFailures"
    assert logins.login("alice", address="10.0.0.1", forwarded_for=ADMIN).user_id == "alice"
    for _ in range(throttle.FREE_OF_USER):
        logins.fail("alice", STRANGER, forwarded_for="198.51.100.1")


def test_proxies_that_are_no_networks_are_refused_at_the_start() -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("auth_strategy", "http_basic", group="api")
    conf.set_override("trusted_proxies", ["nginx"], group="api")
    with pytest.raises(errors.InvalidConfiguration, match="trusted_proxies"):
        authenticator(conf)


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[Cloud]:
    cloud = with_users(tmp_path)
    yield cloud
    cloud.close()


@pytest.mark.parametrize("path", ["/v2.1/servers", "/v2/images"])
def test_answer_is_429_with_the_time_to_wait(guarded: Cloud, path: str) -> None:
    for _ in range(throttle.FREE_OF_USER):
        assert guarded.ask("GET", path, headers=login("alice", "wrong"))[0] == 401
    for password in ("wrong", "secret"):
        result = guarded.client.simulate_get(path, headers=login("alice", password))
        assert (result.status_code, result.headers["Retry-After"]) == (429, "1")
        assert "WWW-Authenticate" not in result.headers
        assert "Try again in 1 s" in result.text
    assert guarded.ask("GET", path, headers=login("bob"))[0] == 200
    assert guarded.ask("GET", "/v2.1/")[0] == 200
