"""Failed logins are counted by user and address, forgotten in time, and hold bounded memory."""

import pytest

from minova import errors
from minova.api.access import throttle
from minova.api.access.addresses import client_address, network_of, parse_networks
from minova.api.access.throttle import Throttle, TooManyFailures


class Table:
    """A throttle with a clock that tests move."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.throttle = Throttle(lambda: self.now)

    def fail(self, user: str = "alice", address: str = "192.0.2.1") -> float:
        """The delay of the next attempt."""
        self.throttle.check(user, address)
        return self.throttle.begin(user, address).delay

    def delay(self, user: str = "alice", address: str = "192.0.2.1") -> int:
        """Whole seconds for which the user must wait; 0 if not."""
        try:
            self.throttle.check(user, address)
        except TooManyFailures as error:
            return error.retry_after
        return 0


def test_delays_double_up_to_the_longest() -> None:
    table = Table()
    delays = []
    for _ in range(throttle.FREE_OF_USER + 8):
        delays.append(table.fail())
        table.now += delays[-1]
    assert delays == [0.0] * (throttle.FREE_OF_USER - 1) + [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0, 60.0]


def test_attempts_while_a_user_waits_do_not_count() -> None:
    table = Table()
    for _ in range(throttle.FREE_OF_USER):
        table.fail()
    for _ in range(100):
        with pytest.raises(TooManyFailures, match="Try again in 1 s"):
            table.fail()
    table.now += 1.0
    assert table.fail() == 2.0


def test_another_address_and_another_user_do_not_wait() -> None:
    table = Table()
    for _ in range(throttle.FREE_OF_USER):
        table.fail()
    assert table.delay() == 1
    assert table.delay("alice", "192.0.2.2") == table.delay("bob") == 0


def test_success_forgets_the_failures_of_that_user_only() -> None:
    table = Table()
    for user in ("alice", "bob"):
        for _ in range(throttle.FREE_OF_USER - 1):
            table.fail(user)
    table.throttle.succeeded(table.throttle.begin("alice", "192.0.2.1"))
    assert [table.fail("alice"), table.fail("bob")] == [0.0, 1.0]


def test_address_with_many_users_waits() -> None:
    table = Table()
    for number in range(throttle.FREE_OF_ADDRESS):
        table.fail(f"u{number}")
    with pytest.raises(TooManyFailures):
        table.fail("another")
    assert table.fail("another", "192.0.2.2") == 0.0
    table.now += 1.0
    assert table.fail("another") == 2.0


def test_many_successes_at_one_address_are_no_failures() -> None:
    table = Table()
    for number in range(10 * throttle.FREE_OF_ADDRESS):
        table.throttle.succeeded(table.throttle.begin(f"u{number}", "192.0.2.1"))
    assert table.fail() == 0.0


def test_guesses_at_the_same_time_count_before_any_is_checked() -> None:
    table = Table()
    attempts = [table.throttle.begin("alice", "192.0.2.1") for _ in range(throttle.FREE_OF_USER)]
    with pytest.raises(TooManyFailures):
        table.throttle.begin("alice", "192.0.2.1")
    table.throttle.succeeded(attempts[0])
    assert table.delay() == 0


def test_failures_are_forgotten_in_time() -> None:
    table = Table()
    for _ in range(throttle.FREE_OF_USER - 1):
        table.fail()
    table.now += throttle.FORGET_AFTER + 1
    assert table.fail() == 0.0


def test_table_is_bounded_and_a_guesser_cannot_flush_its_own_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(throttle, "MAX_ENTRIES", 20)
    table = Table()
    refused = 0
    for number in range(200):
        try:
            table.now += 0.001
            table.fail(f"{number}" * 1000)
        except TooManyFailures:
            refused += 1
        assert len(table.throttle) <= 20
    assert refused == 200 - throttle.FREE_OF_ADDRESS, "the entry of the address is still there"


def test_addresses_that_one_client_has_count_as_one() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::2:3") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") != network_of("192.0.2.2")
    assert network_of("unix:") == "unix:"


ADDRESSES = [
    ("192.0.2.1", "", "192.0.2.1"),
    ("192.0.2.1", "198.51.100.7", "192.0.2.1"),
    ("10.0.0.1", "", "10.0.0.1"),
    ("10.0.0.1", "198.51.100.7", "198.51.100.7"),
    ("10.0.0.1", "203.0.113.9, 198.51.100.7", "198.51.100.7"),
    ("10.0.0.1", "203.0.113.9,198.51.100.7 , 10.0.0.2", "198.51.100.7"),
    ("10.0.0.1", "10.9.9.9", "10.9.9.9"),
    ("10.0.0.1", "x\n, 10.0.0.2", "10.0.0.2"),
    ("10.0.0.1", "unknown", "10.0.0.1"),
    ("::ffff:10.0.0.1", "2001:db8::1", "2001:db8::1"),
    ("", "198.51.100.7", ""),
]


@pytest.mark.parametrize(("peer", "forwarded_for", "client"), ADDRESSES)
def test_client_is_whom_trusted_proxies_name(peer: str, forwarded_for: str, client: str) -> None:
    assert client_address(peer, forwarded_for, parse_networks("o", ["10.0.0.0/8"])) == client


def test_proxy_that_is_no_network_is_refused_with_the_option() -> None:
    with pytest.raises(errors.InvalidConfiguration, match=r"trusted_proxies: .*nginx"):
        parse_networks("[api] trusted_proxies", ["nginx"])
