"""A compute needed 65 s to stop while the image service hung: its builds and images gave no sign of life, and it waited all the same."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from minova.compute.images.cache import ImageCache
from minova.compute.images.downloads import IMAGE_SERVICE
from minova.compute.images.tokens import ImageToken
from minova.compute.images.uploads import ImageUploads
from minova.concurrency.outside_waits import silent
from tests.functional.compute.images.test_cache import DATA, conf, image
from tests.functional.virt.image_server import ImageServer
from tests.waiting import wait_for

# Seconds. A thread that has got a byte is seen to proceed for as long.
SILENCE = 2.0


class Hanging(ImageServer):
    """It sends a byte whenever `sends` is released, and the rest when it is `opened`."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.sends, self.opened = threading.Semaphore(0), threading.Event()

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        to.send_response(200)
        to.send_header("Content-Length", str(len(self.data)))
        to.end_headers()
        sent = 0
        while not self.opened.is_set():
            if self.sends.acquire(timeout=0.05):
                to.wfile.write(self.data[sent : sent + 1])
                sent += 1
        to.wfile.write(self.data[sent:])


@contextmanager
def thread_of(work: Callable[[], object]) -> Iterator[int]:
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield thread.ident or 0
    thread.join(60)
    assert not thread.is_alive()


def test_bug_builds_that_wait_for_a_hanging_image_service_seem_to_proceed(tmp_path: Path) -> None:
    """Two of them wait for one download."""
    with Hanging(DATA) as server:
        images = ImageCache(conf(tmp_path, server.url, timeout=60))
        with thread_of(lambda: images.fetch(image())) as first, thread_of(lambda: images.fetch(image())) as second:

            def waits() -> list[str | None]:
                return [silent(thread, SILENCE) for thread in (first, second)]

            wait_for("silence", lambda: waits() == [IMAGE_SERVICE, IMAGE_SERVICE])
            server.sends.release()
            wait_for("life", lambda: waits() == [None, None])
            wait_for("silence", lambda: silent(first, SILENCE) == IMAGE_SERVICE)
            server.opened.set()
        assert images.fetch(image()).read_bytes() == DATA


def test_bug_image_that_waits_for_a_hanging_image_service_seems_to_proceed(tmp_path: Path) -> None:
    (tmp_path / "image").write_bytes(DATA)
    with ImageServer(DATA) as server:
        hangs, asked = threading.Event(), threading.Event()

        def do_PUT(to: BaseHTTPRequestHandler) -> None:  # noqa: N802  - http.server's name
            asked.set()
            hangs.wait(60)
            to.rfile.read(int(to.headers["Content-Length"]))
            to.send_response(204)
            to.end_headers()

        server.handler.do_PUT = do_PUT  # type: ignore[attr-defined]
        uploads = ImageUploads(conf(tmp_path, server.url, timeout=60))
        token = ImageToken("token", lambda: "token")
        with thread_of(lambda: uploads.upload(image(), tmp_path / "image", token, lambda: None)) as thread:
            assert asked.wait(60)
            wait_for("silence", lambda: silent(thread, SILENCE) == IMAGE_SERVICE)
            hangs.set()
