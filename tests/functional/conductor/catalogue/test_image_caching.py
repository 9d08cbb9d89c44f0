"""Hosts of an aggregate that fetch images in advance, as the conductor sees them."""

from typing import Any

import pytest
from oslo_messaging.notify import _impl_test

from minova import errors
from minova.messaging.notifier import Notifier
from minova.objects.catalogue.image import Image
from tests.functional.conductor.conductor_harness import CTX, ConductorHarness
from tests.functional.conductor.notifications.test_versioned import Open, open_harness, require_as_the_samples, sent
from tests.functional.scheduler.cloud import named

__all__ = ["open_harness"]
IMAGES = tuple(Image(id=named(name), status="active") for name in ("debian", "fedora"))
DEBIAN, FEDORA = (image.id for image in IMAGES)


def aggregate_of(harness: ConductorHarness, *hosts: str) -> int:
    made = harness.conductor.create_aggregate(CTX, name="rack", metadata={"power": "a"})
    for host in hosts:
        harness.conductor.add_host_to_aggregate(CTX, aggregate_id=made.id, host=host)
    return made.id


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
    asked = [[one.image.id for one in wanted] for wanted in harness.hosts["a"].wanted_images]
    assert asked == [[DEBIAN, FEDORA], [DEBIAN], [DEBIAN]]
    # The host can download them: see tests/functional/api for one that does.
    assert all(each.tokens[each.image.id] for each in harness.hosts["b"].wanted_images[0])
    assert harness.hosts["c"].wanted_images == []


def test_a_host_that_is_down_is_skipped(open_harness: Open) -> None:
    harness = open_harness()
    aggregate_id = aggregate_of(harness, "a", "b")
    harness.force_down("a")
    progress = cache(harness, aggregate_id)
    assert [(each["host"], each["index"], each["total"]) for each in progress] == [("b", 1, 2)]
    assert harness.hosts["a"].wanted_images == []


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
