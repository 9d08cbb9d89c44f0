"""Who gets a place, in which order, and who gives one up."""

import threading

import pytest

from minova.api.listener import places
from minova.api.listener.places import SLOW, RequestPlace, RequestPlaces
from minova.errors import ServiceUnavailable
from tests.waiting import wait_for


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def waiting(
    room: RequestPlaces, owner: str, *, order: list[str] | None = None, is_gone: bool = False
) -> threading.Thread:
    """A request that waits for a place in a thread. `order` gets its owner when it has one, or is refused."""
    place = room.place(is_gone=lambda: is_gone)

    def run() -> None:
        try:
            place.enter(owner)
        except ServiceUnavailable:
            owner_and_end = f"{owner} refused"
        else:
            owner_and_end = owner
        if order is not None:
            order.append(owner_and_end)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    if not is_gone:
        wait_for("the request waits or has a place", lambda: place.queued or not thread.is_alive())
    return thread


def held(room: RequestPlaces, owner: str) -> RequestPlace:
    place = room.place()
    place.enter(owner)
    return place


def test_free_place_is_of_the_owner_with_the_fewest() -> None:
    room = RequestPlaces(4)
    order: list[str] = []
    other = [held(room, owner) for owner in ("a", "a", "c", "c")]
    threads = [waiting(room, "a", order=order)]
    held(room, "b")
    threads.append(waiting(room, "b", order=order))
    other.pop().leave()
    other.pop().leave()
    threads.pop().join(30)
    assert order == ["b"], "though a has waited longer"
    other.pop().leave()
    threads.pop().join(30)
    assert order == ["b", "a"]


def test_request_that_waits_is_refused_when_too_many_wait() -> None:
    room = RequestPlaces(1, waiting=2)
    order: list[str] = []
    held(room, "a")
    first = waiting(room, "a", order=order)
    late = waiting(room, "a", order=order)
    for owner in ("b", "c", "d"):
        held(room, owner)
    other = waiting(room, "e", order=order)
    late.join(30)
    assert order == ["a refused"], "the latest of the owner with the most"
    assert first.is_alive()
    assert other.is_alive()


def test_request_whose_client_has_gone_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOOK", 0.01)
    room = RequestPlaces(1)
    order: list[str] = []
    held(room, "a")
    waiting(room, "a", order=order, is_gone=True).join(30)
    assert order == ["a refused"]


def test_place_is_left_once_and_taken_once() -> None:
    room = RequestPlaces(1)
    place = held(room, "a")
    place.enter("a")
    place.leave()
    place.leave()
    held(room, "a")
    room.place().leave()


@pytest.mark.parametrize(
    ("speed", "waits", "gives_way"), [(SLOW - 1, True, True), (SLOW + 1, True, False), (SLOW - 1, False, False)]
)
def test_only_a_slow_transfer_that_waits_for_its_client_gives_way(
    monkeypatch: pytest.MonkeyPatch, speed: int, waits: bool, gives_way: bool
) -> None:
    monkeypatch.setattr(places, "LOOK", 0.01)
    clock, told = Clock(), threading.Event()
    room = RequestPlaces(1, clock=clock)
    transfers = [room.place(told.set) for _ in range(4)]
    for number, transfer in enumerate(transfers):
        transfer.enter(f"a{number}")
        transfer.waits = waits
    order: list[str] = []
    thread = waiting(room, "b", order=order)
    clock.now = 10.0
    for transfer in transfers:
        transfer.moved = 10 * speed
    assert told.wait(30 if gives_way else 0.2) == gives_way
    assert sum(transfer.has_given_way for transfer in transfers) == gives_way, "one at a time"
    transfers[0].leave()
    thread.join(30)
    assert order == ["b"]


def test_transfer_of_an_owner_with_as_many_places_does_not_give_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "LOOK", 0.01)
    clock, told = Clock(), threading.Event()
    room = RequestPlaces(1, clock=clock)
    transfer = room.place(told.set)
    transfer.enter("a")
    transfer.waits = True
    waiting(room, "a")
    clock.now = 10.0
    assert not told.wait(0.2)
