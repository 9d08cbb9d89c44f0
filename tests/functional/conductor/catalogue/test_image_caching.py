"""Hosts of an aggregate that fetch images in advance, as the conductor sees them."""

from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from minova import errors
from minova.conductor.catalogue.image_caching import ASK_EVERY, TURN, WITHIN
from minova.messaging.notifier import Notifier
from minova.objects.catalogue.image import Image
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.notifications.test_versioned import Open, open_harness, require_as_the_samples, sent
from tests.functional.scheduler.cloud import named

__all__ = ["open_harness"]
IMAGES = tuple(Image(id=named(name), status="active") for name in ("debian", "fedora"))
DEBIAN, FEDORA = (image.id for image in IMAGES)


def aggregate_of(harness: ConductorHarness, *hosts: str) -> int:
    aggregate = harness.conductor.create_aggregate(CTX, name="rack", metadata={"power": "a"})
    for host in hosts:
        harness.conductor.add_host_to_aggregate(CTX, aggregate_id=aggregate.id, host=host)
    return aggregate.id


def cache(harness: ConductorHarness, aggregate_id: int) -> list[dict[str, Any]]:
    """The data of the notifications of progress."""
    harness.conductor.cache_images(CTX, aggregate_id=aggregate_id, images=IMAGES)
    harness.settle()
    messages = sent(harness)
    require_as_the_samples(messages)
    names = [message["event_type"] for message, _ in messages]
    assert (names[0], names[-1]) == ("aggregate.cache_images.start", "aggregate.cache_images.end")
    assert {*names[1:-1]} <= {"aggregate.cache_images.progress"}
    whole = messages[0][0]["payload"]["nova_object.data"]
    assert (whole["id"], whole["name"], whole["metadata"]) == (aggregate_id, "rack", {"power": "a"})
    return [message["payload"]["nova_object.data"] for message, _ in messages[1:-1]]


def test_each_host_is_asked_until_it_has_all_images(open_harness: Open) -> None:
    harness = open_harness()
    harness.hosts["a"].image_statuses = [("fetching", "cached"), ("fetching",), ("cached",)]
    progress = cache(harness, aggregate_of(harness, "a", "b"))
    assert [(each["host"], each["images_cached"], each["images_failed"]) for each in progress] == [
        ("a", [DEBIAN, FEDORA], []),
        ("b", [DEBIAN, FEDORA], []),
    ]
    assert [(each["index"], each["total"]) for each in progress] == [(1, 2), (2, 2)]
    image_ids = [
        [sent_image.image.id for sent_image in wanted_image] for wanted_image in harness.hosts["a"].wanted_images
    ]
    assert image_ids == [[DEBIAN, FEDORA], [DEBIAN], [DEBIAN]]
    # The host can download them: see tests/functional/api for one that does.
    assert all(each.tokens[each.image.id] for each in harness.hosts["b"].wanted_images[0])
    assert harness.hosts["c"].wanted_images == []


def test_bug_a_host_that_is_down_counts_in_the_progress(open_harness: Open) -> None:
    harness = open_harness()
    aggregate_id = aggregate_of(harness, "a", "b")
    harness.force_down("a")
    progress = cache(harness, aggregate_id)
    assert [(each["host"], each["index"], each["total"]) for each in progress] == [("a", 1, 2), ("b", 2, 2)]
    assert [each["images_failed"] for each in progress] == [[DEBIAN, FEDORA], []]
    assert harness.hosts["a"].wanted_images == []


@pytest.mark.parametrize("answer", [("cached",), ("cached", "cached", "cached"), ("cached", "soon")])
def test_bug_a_host_that_answers_oddly_counts_in_the_progress(open_harness: Open, answer: tuple[str, ...]) -> None:
    harness = open_harness()
    harness.hosts["a"].image_statuses = [answer]
    progress = cache(harness, aggregate_of(harness, "a", "b"))
    assert [(each["host"], each["images_failed"], each["index"]) for each in progress] == [
        ("a", [DEBIAN, FEDORA], 1),
        ("b", [], 2),
    ]


def test_bug_a_host_that_fetches_for_ever_does_not_hold_the_only_place(open_harness: Open) -> None:
    harness = open_harness()
    slow = harness.hosts["a"]
    slow.image_statuses = [("fetching", "fetching")] * 2000

    def take_time() -> None:
        harness.now += ASK_EVERY

    slow.on_cache_images = take_time
    aggregate_id = aggregate_of(harness, "a", "b")
    began_at = harness.now
    asked_at: list[float] = []
    harness.hosts["b"].on_cache_images = lambda: asked_at.append(harness.now - began_at)
    progress = cache(harness, aggregate_id)
    assert [(each["host"], each["images_failed"]) for each in progress] == [("b", []), ("a", [DEBIAN, FEDORA])]
    assert asked_at[0] <= TURN + ASK_EVERY
    assert WITHIN <= harness.now - began_at <= WITHIN + 2 * ASK_EVERY


def test_a_host_of_the_last_release_and_one_that_fails_are_named(open_harness: Open) -> None:
    harness = open_harness()
    harness.hosts["a"].old = True
    harness.hosts["b"].image_statuses = [("cached", "error")]
    progress = cache(harness, aggregate_of(harness, "a", "b"))
    assert [(each["images_cached"], each["images_failed"]) for each in progress] == [
        ([], [DEBIAN, FEDORA]),
        ([DEBIAN], [FEDORA]),
    ]


def test_an_aggregate_without_hosts_ends_at_once(open_harness: Open) -> None:
    harness = open_harness()
    assert cache(harness, aggregate_of(harness)) == []


def test_no_such_aggregate(open_harness: Open) -> None:
    harness = open_harness()
    with pytest.raises(errors.NotFound, match=r"Aggregate 77 could not be found."):
        harness.conductor.cache_images(CTX, aggregate_id=77, images=IMAGES)


def test_no_notification_without_a_listener(open_harness: Open) -> None:
    harness = open_harness("unversioned")
    harness.conductor.cache_images(CTX, aggregate_id=aggregate_of(harness, "a"), images=IMAGES)
    harness.settle()
    assert isinstance(harness.notifier, Notifier)
    harness.notifier.stop()
    assert _impl_test.NOTIFICATIONS == []
    assert len(harness.hosts["a"].wanted_images) == 1
