"""Who gets a place, and who gives one up."""

from minova.api.access.addresses import parse_networks
from minova.api.listener.limits import Admission, ConnectionLimits, Lease


def busy(admission: Admission, address: str) -> Lease:
    """A connection in the middle of a request."""
    lease = admission.admit(address)
    assert lease is not None
    lease.waits(False)
    return lease


def test_one_address_gets_no_more_than_its_share() -> None:
    admission = Admission(ConnectionLimits(connections_per_address=2))
    first, _ = busy(admission, "192.0.2.1"), busy(admission, "192.0.2.1")
    assert admission.admit("192.0.2.1") is None
    assert admission.admit("192.0.2.2") is not None
    first.release()
    first.release()
    busy(admission, "192.0.2.1")
    assert admission.admit("192.0.2.1") is None


def test_addresses_of_one_ipv6_network_count_as_one() -> None:
    admission = Admission(ConnectionLimits(connections_per_address=1))
    busy(admission, "2001:db8::1")
    assert admission.admit("2001:db8::2") is None
    assert admission.admit("2001:db8:0:1::2") is not None


def test_connection_of_an_address_that_waited_longest_makes_room_for_its_next() -> None:
    admission = Admission(ConnectionLimits(connections_per_address=3))
    others = admission.admit("192.0.2.2")
    assert others is not None
    sending, first, second = [admission.admit("192.0.2.1") for _ in range(3)]
    assert sending is not None
    assert first is not None
    assert second is not None
    sending.is_sending = lambda: True
    assert admission.admit("192.0.2.1") is not None
    assert [lease.is_released for lease in (others, sending, first, second)] == [False, False, True, False]
    assert len(admission) == 4


def test_trusted_proxies_are_not_counted() -> None:
    admission = Admission(
        ConnectionLimits(connections_per_address=1, trusted_proxies=parse_networks("x", ["192.0.2.0/24"]))
    )
    assert None not in [admission.admit("192.0.2.1") for _ in range(10)]


def test_connection_that_waited_longest_makes_room() -> None:
    admission = Admission(ConnectionLimits(connections=3, connections_per_address=0))
    evicted: list[int] = []
    leases = []
    for number in range(3):
        lease = admission.admit("192.0.2.1")
        assert lease is not None
        lease.evict = lambda number=number: evicted.append(number)  # type: ignore[misc]
        leases.append(lease)
    leases[0].waits(False)
    leases[1].waits(True)
    assert admission.admit("192.0.2.2") is not None
    assert evicted == [2]
    assert len(admission) == 3


def test_requests_are_never_given_up() -> None:
    admission = Admission(ConnectionLimits(connections=2, connections_per_address=0))
    for _ in range(2):
        lease = admission.admit("192.0.2.1")
        assert lease is not None
        lease.waits(False)
    assert admission.admit("192.0.2.2") is None


def test_released_connection_waits_no_more() -> None:
    admission = Admission(ConnectionLimits(connections=1, connections_per_address=0))
    lease = admission.admit("192.0.2.1")
    assert lease is not None
    lease.release()
    lease.waits(True)
    assert admission.admit("192.0.2.1") is not None
    assert len(admission) == 1


def test_bug_slow_requests_of_some_networks_kept_all_others_out() -> None:
    admission = Admission(ConnectionLimits(connections=7, connections_per_network=4))
    evicted: list[str] = []

    def enter(network: str) -> Lease | None:
        lease = admission.admit("10.0.0.1", network)
        if lease is not None:
            lease.waits(False)
            lease.evict = lambda: evicted.append(network)
        return lease

    for network in ("one", "two"):
        for _ in range(4):
            enter(network)
    assert [enter(network) is not None for network in ("one", "quiet", "quiet", "quiet")] == [False, True, True, False]
    assert evicted == ["one", "one"]
    assert len(admission) == 7
    # Each network keeps its part.
    assert [enter(network) for network in ("one", "two")] == [None, None]


def test_waiting_connection_of_the_largest_network_is_closed_first() -> None:
    admission = Admission(ConnectionLimits(connections=4))
    small, *large = (admission.admit("10.0.0.1", network) for network in ("small", "large", "large", "large"))
    assert small is not None
    assert large[0] is not None
    assert large[1] is not None
    large[0].waits(False)
    assert admission.admit("10.0.0.1", "new") is not None
    assert [small.is_released, large[0].is_released, large[1].is_released] == [False, False, True]
