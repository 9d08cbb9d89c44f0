"""Images that a host fetches in advance."""

from collections.abc import Callable
from pathlib import Path

import pytest

from minova import errors
from minova.compute.images.precaching import KEPT, UNTOLD, Precaching
from minova.compute.images.source import CopyWriter
from minova.compute.images.tokens import ImageToken
from minova.objects.catalogue.image import BootFile, Image
from minova.objects.catalogue.image_caching import CacheStatus, WantedImage

ONE, TWO = (WantedImage(image=Image(id=name), tokens={name: f"token of {name}"}) for name in ("one", "two"))


class Source:
    def __init__(self) -> None:
        self.there: set[str] = set()
        self.kept: list[str] = []
        self.fetched: list[tuple[str, str | None]] = []
        self.failure: Exception | None = None

    def is_cached(self, image: Image) -> bool:
        return image.id in self.there

    def keep(self, image: Image) -> bool:
        self.kept.append(image.id)
        return self.is_cached(image)

    def require_there(self, image: Image, token: ImageToken | None = None) -> None:
        raise NotImplementedError

    def fetch(self, image: Image, check: Callable[[], None] = lambda: None, token: ImageToken | None = None) -> Path:
        check()
        assert token is not None
        self.fetched.append((image.id, token.renewed()))
        if self.failure is not None:
            raise self.failure
        self.there.add(image.id)
        return Path(image.id)

    def take_copy(self, image: Image, size: int, write: CopyWriter, check: Callable[[], None]) -> Path:
        raise NotImplementedError


class Host:
    def __init__(self) -> None:
        self.now = 0.0
        self.source = Source()
        self.waiting: list[Callable[[], None]] = []
        self.precaching = Precaching(self.source, self.waiting.append, check=lambda: None, ticks=lambda: self.now)

    def ask(self, *wanted: WantedImage, request: str = "req-1") -> tuple[CacheStatus, ...]:
        return self.precaching.statuses(request, wanted)

    def work(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()


def test_an_image_is_fetched_once_and_one_that_is_there_not_at_all() -> None:
    host = Host()
    host.source.there.add("two")
    assert host.ask(ONE, TWO) == (CacheStatus.FETCHING, CacheStatus.EXISTING)
    assert host.source.kept == ["one", "two"]
    assert host.ask(ONE) == (CacheStatus.FETCHING,)
    host.work()
    # Also if the first answer is lost.
    assert host.ask(ONE) == host.ask(ONE) == (CacheStatus.CACHED,)
    assert host.source.fetched == [("one", "token of one")]
    assert host.ask(ONE, request="req-2") == (CacheStatus.EXISTING,)


def test_the_newest_token_is_used() -> None:
    host = Host()
    host.ask(ONE)
    host.ask(WantedImage(image=ONE.image, tokens={"one": "newer"}))
    host.work()
    assert host.source.fetched == [("one", "newer")]


def test_a_failure_is_tried_again_by_a_later_request() -> None:
    host = Host()
    host.source.failure = errors.ServiceUnavailable("the image service is away")
    host.ask(ONE)
    host.work()
    assert host.ask(ONE) == (CacheStatus.ERROR,)
    host.source.failure = None
    assert host.ask(ONE, request="req-2") == (CacheStatus.FETCHING,)
    host.work()
    assert host.ask(ONE, request="req-2") == (CacheStatus.CACHED,)


def test_a_defect_is_an_error_and_not_fetching_for_ever() -> None:
    host = Host()
    host.source.failure = KeyError("digest")
    host.ask(ONE)
    with pytest.raises(KeyError):
        host.work()
    assert host.ask(ONE) == (CacheStatus.ERROR,)


def test_outcomes_are_forgotten_but_not_what_is_still_fetched() -> None:
    host = Host()
    host.source.failure = errors.ServiceUnavailable("the image service is away")
    host.ask(ONE)
    host.now = 10 * KEPT
    assert host.ask(ONE) == (CacheStatus.FETCHING,)
    assert len(host.waiting) == 1
    host.work()
    assert host.ask(ONE) == (CacheStatus.ERROR,)
    host.now += KEPT + 1
    # As after a restart: it begins again.
    assert host.ask(ONE) == (CacheStatus.FETCHING,)
    assert len(host.waiting) == 1


def test_bug_failure_was_forgotten_before_the_host_had_its_next_turn() -> None:
    """Conductors ask hosts in turn: the image was fetched again in each turn."""
    host = Host()
    host.source.failure = errors.ServiceUnavailable("the image service is away")
    host.ask(ONE)
    host.work()
    for _ in range(2):  # the answer may be lost
        host.now += KEPT - 1
        assert host.ask(ONE) == (CacheStatus.ERROR,)
    host = Host()
    host.ask(ONE)
    host.now += 10 * KEPT
    host.work()
    host.now += 2 * KEPT
    assert host.ask(ONE) == (CacheStatus.CACHED,)
    host.now += UNTOLD
    host.ask(ONE, request="req-2")
    host.now += 2 * UNTOLD
    assert host.ask(ONE) == (CacheStatus.EXISTING,)


def test_kernel_and_ramdisk_come_along() -> None:
    host = Host()
    kernel = BootFile(id="kernel", size=1, os_hash_algo="sha256", os_hash_value="0" * 64)
    host.source.there.add("one")
    image = WantedImage(image=Image(id="one", kernel=kernel), tokens={"one": "a", "kernel": "b"})
    assert host.ask(image) == (CacheStatus.FETCHING,)
    host.work()
    assert host.ask(image) == (CacheStatus.CACHED,)


def test_no_thread_is_an_error() -> None:
    def refuse(work: Callable[[], None]) -> None:
        raise RuntimeError("can't start new thread")

    precaching = Precaching(Source(), refuse, check=lambda: None)
    assert precaching.statuses("req-1", [ONE]) == (CacheStatus.ERROR,)
