"""A build that was deleted went on to wait for its image, and its delete with it."""

import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from minova.compute.images.cache import ImageCache
from tests.functional.compute.images.test_cache import DATA, conf, files, image
from tests.functional.virt.image_server import ImageServer
from tests.waiting import wait_for


class Cancelled(Exception):
    pass


class Slow:
    """An image cache whose download stands still until it is opened, and the builds that wait for it."""

    def __init__(self, folder: Path, server: ImageServer) -> None:
        self.asked, self.opened = threading.Event(), threading.Event()
        self.cache = ImageCache(conf(folder, server.url), pause=lambda _: None)
        answer = server.answer

        def held(to: object) -> None:
            self.asked.set()
            self.opened.wait(30)
            answer(to)  # type: ignore[arg-type]

        server.answer = held  # type: ignore[method-assign]
        self.ends: dict[str, object] = {}
        # Builds that have joined the download.
        self.waiting: set[str] = set()

    def build(self, name: str, cancelled: threading.Event) -> threading.Thread:
        def check() -> None:
            self.waiting.add(name)
            if cancelled.is_set():
                raise Cancelled

        return self._thread(name, lambda: self.cache.fetch(image(), check))

    def _thread(self, name: str, work: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                self.ends[name] = work()
            except Exception as error:  # noqa: BLE001  - the test looks at it
                self.ends[name] = error

        thread = threading.Thread(target=run)
        thread.start()
        return thread


def test_cancelled_builds_leave_the_download_to_those_that_go_on(tmp_path: Path) -> None:
    with ImageServer(DATA) as server:
        slow = Slow(tmp_path, server)
        cancelled = {name: threading.Event() for name in ("first", "second", "third")}
        threads = {name: slow.build(name, event) for name, event in cancelled.items()}
        assert slow.asked.wait(60)
        for name in ("first", "second"):
            cancelled[name].set()
            threads[name].join(60)
            assert isinstance(slow.ends[name], Cancelled)
        slow.opened.set()
        threads["third"].join(60)
        assert slow.ends["third"] == slow.cache.folder / image().os_hash_value
        assert len(server.requests) == 1


def test_a_download_that_no_build_waits_for_ends_and_the_next_build_gets_its_image(tmp_path: Path) -> None:
    with ImageServer(DATA) as server:
        slow = Slow(tmp_path, server)
        cancelled = threading.Event()
        thread = slow.build("only", cancelled)
        assert slow.asked.wait(60)
        cancelled.set()
        thread.join(60)
        assert isinstance(slow.ends["only"], Cancelled)
        slow.opened.set()
        path = slow.cache.fetch(image())
        assert path.read_bytes() == DATA
        assert not any(name.endswith(".part") for name in files(slow.cache))


def test_an_error_reaches_every_build_that_waits(tmp_path: Path) -> None:
    with ImageServer(DATA) as server:
        server.plan = ["404"]
        slow = Slow(tmp_path, server)
        threads = [slow.build(name, threading.Event()) for name in ("a", "b")]
        wait_for("both builds wait", lambda: slow.waiting == {"a", "b"})
        slow.opened.set()
        for thread in threads:
            thread.join(60)
        with pytest.raises(Exception, match="is not at"):
            raise slow.ends["a"]  # type: ignore[misc]
        assert slow.ends["b"] is slow.ends["a"]
        assert len(server.requests) == 1
