"""What a download shows to the image service: the token of its build, a fresh one when that is refused, or the password of `[glance]`."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest

from minova import errors
from minova.compute.images.tokens import ImageToken
from minova.objects.catalogue.image import BootFile
from tests.functional.compute.images.test_cache import DATA, cache, image, server
from tests.functional.virt.image_server import ImageServer
from tests.waiting import wait_for

__all__ = ["server"]


def none() -> str:
    raise AssertionError("no fresh token is needed")


def shown(server: ImageServer) -> list[str | None]:
    return [authorization for _, authorization in server.requests]


def stale() -> str:
    raise errors.StaleAttempt("the build was given up")


def too_old() -> str:
    raise errors.PeerTooOld("no such method")


def test_download_shows_the_token_of_its_build(tmp_path: Path, server: ImageServer) -> None:
    assert cache(tmp_path, server).fetch(image(), token=ImageToken("first", none)).read_bytes() == DATA
    assert shown(server) == ["Bearer first"]


def test_the_kernel_of_an_image_is_fetched_with_a_token_of_its_own(tmp_path: Path, server: ImageServer) -> None:
    kernel = BootFile(id="k", size=len(DATA), os_hash_algo="sha256", os_hash_value=image().os_hash_value)
    token = ImageToken.of_build(lambda image_id: f"for {image_id}", image().id, "first")
    images = cache(tmp_path, server)
    path = images.fetch(msgspec.structs.replace(image(), kernel=kernel, ramdisk=kernel), token=token)
    # Both have the same bytes, which are one file of the cache.
    assert shown(server) == ["Bearer for k"]
    assert path.name == kernel.os_hash_value


def test_refused_token_is_renewed_at_once(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["401"]
    images = cache(tmp_path, server, num_retries=0)
    assert images.fetch(image(), token=ImageToken("old", lambda: "fresh")).read_bytes() == DATA
    assert shown(server) == ["Bearer old", "Bearer fresh"]


def test_build_without_a_token_asks_for_one(tmp_path: Path, server: ImageServer) -> None:
    cache(tmp_path, server).fetch(image(), token=ImageToken(None, lambda: "fresh"))
    assert shown(server) == ["Bearer fresh"]


def test_fresh_token_is_kept_for_the_next_try(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["401", "cut"]
    cache(tmp_path, server, num_retries=1).fetch(image(), token=ImageToken("old", lambda: "fresh"))
    assert shown(server) == ["Bearer old", "Bearer fresh", "Bearer fresh"]


def test_refusal_of_fresh_tokens_says_what_to_look_at(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["401", "401"]
    with pytest.raises(errors.ServiceUnavailable, match="Is it an API of this release, with the conductors' database"):
        cache(tmp_path, server).fetch(image(), token=ImageToken("old", lambda: "fresh"))
    assert shown(server) == ["Bearer old", "Bearer fresh"]


def test_an_image_that_was_deactivated_is_not_asked_for_again(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["403"]
    with pytest.raises(errors.ImageUnacceptable, match="has been deactivated"):
        cache(tmp_path, server).fetch(image(), token=ImageToken("first", none))
    assert shown(server) == ["Bearer first"]


def test_conductors_of_the_last_release_give_no_token(tmp_path: Path, server: ImageServer) -> None:
    """An image service without users gives the bytes, and another's refusal says what to do."""
    token = ImageToken(None, too_old)
    server.plan = ["401"]
    with pytest.raises(
        errors.ServiceUnavailable, match=r"upgrade them, or set \[glance\] username and password until then"
    ):
        cache(tmp_path, server).fetch(image(), token=token)
    assert cache(tmp_path, server).fetch(image(), token=token).read_bytes() == DATA
    assert shown(server) == [None, None]


def test_password_of_the_configuration_comes_first(tmp_path: Path, server: ImageServer) -> None:
    """Also beside conductors of this release: an image service that is not minova's knows no tokens."""
    images = cache(tmp_path, server, username="compute", password="SECRET")
    images.fetch(image(), token=ImageToken("first", none))
    assert shown(server) == ["Basic Y29tcHV0ZTpTRUNSRVQ="]


def test_build_that_was_given_up_does_not_fail_those_that_wait_with_it(tmp_path: Path, server: ImageServer) -> None:
    gate = threading.Event()

    class Slow(ImageServer):
        def answer(self, to: object) -> None:
            gate.wait(60)
            super().answer(to)  # type: ignore[arg-type]

    with Slow(DATA) as slow, ThreadPoolExecutor(2) as pool:
        images = cache(tmp_path, slow, num_retries=0)
        slow.plan = ["401"]
        fetch: Callable[[ImageToken], Path] = lambda token: images.fetch(image(), token=token)  # noqa: E731
        given_up = pool.submit(fetch, ImageToken("one", stale))
        wait_for("the first build waits", lambda: any(each.waiting == 1 for each in images._fetches.values()))
        other = pool.submit(fetch, ImageToken("two", lambda: "fresh"))
        wait_for("both builds wait", lambda: any(each.waiting == 2 for each in images._fetches.values()))
        gate.set()
        assert given_up.result(60).read_bytes() == other.result(60).read_bytes() == DATA
        assert shown(slow)[-1] == "Bearer fresh"
        assert images._fetches == {}
