"""Base images over real HTTP: fetched once, checked, and never half there."""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from oslo_config import cfg

from minova import conf as configuration
from minova.compute.images.cache import ImageCache
from minova.compute.images.cached_files import locked, mark_file
from minova.compute.images.source import CopyWriter
from minova.compute.images.sweep import sweep
from minova.errors import DiskFull, ImageUnacceptable, ServiceUnavailable, StaleAttempt
from minova.image_format.inspection import RULES
from minova.objects.catalogue.image import Image
from tests.functional.virt.image_server import ImageServer

DATA = b"raw disk " * 30000
ID = "7d1d8e0c-97e1-4c5f-8c55-0a4a3b1f3f10"


def image(data: bytes = DATA, **more: Any) -> Image:
    fields: dict[str, Any] = {
        "id": ID,
        "status": "active",
        "disk_format": "raw",
        "container_format": "bare",
        "size": len(data),
        "os_hash_algo": "sha256",
        "os_hash_value": hashlib.sha256(data).hexdigest(),
    }
    return Image(**fields | more)


@pytest.fixture
def server() -> Iterator[ImageServer]:
    with ImageServer(DATA) as server:
        yield server


def conf(folder: Path, url: str, **glance: Any) -> cfg.ConfigOpts:
    options = configuration.load([], "test", files=[])
    options.set_override("state_path", str(folder))
    for name, value in {"endpoint_override": url, "timeout": 5, **glance}.items():
        options.set_override(name, value, group="glance")
    return options


def cache(folder: Path, server: ImageServer, **glance: Any) -> ImageCache:
    return ImageCache(conf(folder, server.url, **glance), pause=lambda _: None)


def files(images: ImageCache) -> set[str]:
    return {path.name for path in images.folder.iterdir() if path.is_file()} if images.folder.exists() else set()


def test_an_image_is_fetched_once_and_found_again(tmp_path: Path, server: ImageServer) -> None:
    path = cache(tmp_path, server).fetch(image())
    assert path.read_bytes() == DATA
    assert path.parent == tmp_path / "instances" / "_base"
    assert cache(tmp_path, server).fetch(image()) == path
    assert server.requests == [(f"/v2/images/{ID}/file", None)]


def test_whether_an_image_is_there_is_asked_without_a_download(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    images.require_there(image())
    assert files(images) == set()
    assert len(server.requests) == 1
    with pytest.raises(ImageUnacceptable, match="bytes expected"):
        images.require_there(image(size=len(DATA) + 1))
    server.plan = ["404"]
    with pytest.raises(ImageUnacceptable, match="not at the image service"):
        images.require_there(image())
    server.plan = ["503"] * 9
    with pytest.raises(ServiceUnavailable):
        images.require_there(image())


def test_threads_that_want_the_same_image_fetch_it_once(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    with ThreadPoolExecutor(8) as pool:
        paths = set(pool.map(lambda _: images.fetch(image()), range(16)))
    assert len(paths) == len(server.requests) == 1


def test_processes_that_want_the_same_image_fetch_it_once(tmp_path: Path, server: ImageServer) -> None:
    program = (
        "import sys, pathlib, msgspec\n"
        "from tests.functional.compute.images.test_cache import conf, ImageCache, Image\n"
        "image = msgspec.json.decode(sys.argv[3], type=Image)\n"
        "print(ImageCache(conf(pathlib.Path(sys.argv[1]), sys.argv[2])).fetch(image))\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path), server.url, msgspec.json.encode(image()).decode()]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    answers = {process.communicate(timeout=120)[0] for process in started}
    assert [process.returncode for process in started] == [0, 0, 0]
    assert len(answers) == len(server.requests) == 1


@pytest.mark.parametrize(
    "plan", [["cut"], ["503", "500"], ["cut", "cut", "429"], ["flipped"], ["longer"], ["no length"]]
)
def test_a_broken_download_is_taken_up_again(tmp_path: Path, server: ImageServer, plan: list[str]) -> None:
    server.plan = list(plan)
    assert cache(tmp_path, server).fetch(image()).read_bytes() == DATA
    assert server.plan == []


@pytest.mark.parametrize("how", ["cut", "503"])
def test_one_that_stays_broken_leaves_nothing_and_may_succeed_elsewhere(
    tmp_path: Path, server: ImageServer, how: str
) -> None:
    server.plan = [how] * 2
    images = cache(tmp_path, server, num_retries=1)
    with pytest.raises(ServiceUnavailable, match=f"{ID} cannot be fetched from the image service"):
        images.fetch(image())
    assert files(images) == set()
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"os_hash_value": "0" * 64}, f"expected {'0' * 64}, got {hashlib.sha256(DATA).hexdigest()}"),
        ({"size": 1000}, "size expected 1000 bytes, got more"),
        ({"disk_format": "qcow2"}, "declared as qcow2, but the file is raw"),
        ({"disk_format": "vmdk"}, "disk_format 'vmdk'"),
        ({"container_format": "ova"}, "container_format 'ova'"),
        ({"os_hash_value": None}, "no os_hash_value"),
        ({"os_hash_value": "../../../etc/passwd"}, "no os_hash_value"),
        ({"os_hash_algo": "md5"}, "no os_hash_value"),
        ({"id": "../../flavors"}, "Image id '../../flavors'"),
    ],
)
def test_an_image_that_is_not_what_it_says_is_refused(
    tmp_path: Path, server: ImageServer, wrong: dict[str, Any], words: str
) -> None:
    images = cache(tmp_path, server, num_retries=0)
    with pytest.raises(ImageUnacceptable) as caught:
        images.fetch(image(**wrong))
    assert words in str(caught.value)
    assert {name for name in files(images) if not name.endswith(".json")} == set()


def test_bytes_that_were_refused_are_not_fetched_again(tmp_path: Path, server: ImageServer) -> None:
    for number in range(3):
        with pytest.raises(ImageUnacceptable, match=f"Image {ID}: declared as qcow2, but the file is raw"):
            cache(tmp_path, server).fetch(image(disk_format="qcow2"))
        assert len(server.requests) == 1, number
    # The verdict is on the bytes as a qcow2 image, and no other.
    assert cache(tmp_path, server).fetch(image()).read_bytes() == DATA
    images = cache(tmp_path, server)
    with pytest.raises(ImageUnacceptable, match="declared as qcow2"):
        images.fetch(image(disk_format="qcow2"))


@pytest.mark.parametrize(("rules", "virtual_size"), [(RULES, 4711), (RULES - 1, len(DATA))])
def test_the_verdict_beside_the_file_holds_as_long_as_the_rules(
    tmp_path: Path, server: ImageServer, rules: int, virtual_size: int
) -> None:
    path = cache(tmp_path, server).fetch(image())
    mark = path.with_name(f"{path.name}.json")
    written = msgspec.json.decode(mark.read_bytes())
    assert (written["rules"], written["disk_format"], written["virtual_size"]) == (RULES, "raw", len(DATA))
    mark.write_bytes(msgspec.json.encode(written | {"rules": rules, "virtual_size": 4711}))
    program = (
        "import sys, pathlib, msgspec\n"
        "from minova.image_format.inspected_files import inspect_once\n"
        "from tests.functional.compute.images.test_cache import conf, ImageCache, Image\n"
        "image = msgspec.json.decode(sys.argv[3], type=Image)\n"
        "path = ImageCache(conf(pathlib.Path(sys.argv[1]), sys.argv[2])).fetch(image)\n"
        "print(inspect_once(path, 'raw').virtual_size)\n"
    )
    words = [sys.executable, "-c", program, str(tmp_path), server.url, msgspec.json.encode(image()).decode()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    assert int(done.stdout) == virtual_size


def test_an_image_that_is_gone_is_not_asked_for_again(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["404"]
    with pytest.raises(ImageUnacceptable, match="HTTP 404"):
        cache(tmp_path, server).fetch(image())
    assert len(server.requests) == 1


def test_an_image_that_another_host_has_is_kept_like_a_download(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    path = images.take_copy(image(), len(DATA), writer(DATA), go_on)
    assert path.read_bytes() == DATA
    assert images.fetch(image()) == path
    assert images.take_copy(image(), len(DATA), lambda *_: pytest.fail("it is here"), go_on) == path
    assert server.requests == []


@pytest.mark.parametrize("served", [b"R" + DATA[1:], DATA[:-1]])
def test_other_bytes_of_another_host_are_refused(tmp_path: Path, server: ImageServer, served: bytes) -> None:
    images = cache(tmp_path, server)
    with pytest.raises(ImageUnacceptable, match="expected"):
        images.take_copy(image(), len(served), writer(served), go_on)
    # The size that the host has promised is not what it serves.
    with pytest.raises(ImageUnacceptable, match="expected"):
        images.take_copy(image(), len(DATA), writer(served), go_on)
    assert files(images) == set()


def writer(data: bytes) -> CopyWriter:
    def write(path: Path, check: Callable[[], None]) -> None:
        path.write_bytes(data)
        check()

    return write


def go_on() -> None:
    """Every copy is wanted."""


def test_bug_move_waited_without_a_check_for_the_copy_of_another(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)

    def cancelled() -> None:
        raise StaleAttempt("not wanted any more")

    with locked(images.folder, str(image().os_hash_value)), pytest.raises(StaleAttempt):
        images.take_copy(image(), len(DATA), writer(DATA), cancelled)
    assert files(images) == set()


def test_bug_copy_of_unknown_size_filled_the_disk(
    tmp_path: Path, server: ImageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = cache(tmp_path, server)

    def write(path: Path, check: Callable[[], None]) -> None:
        path.write_bytes(DATA)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
        check()

    with pytest.raises(DiskFull):
        images.take_copy(image(size=None), len(DATA), write, go_on)
    assert files(images) == set()


def test_url_without_a_server(tmp_path: Path) -> None:
    images = ImageCache(conf(tmp_path, "http://127.0.0.1:9"), pause=lambda _: None)
    with pytest.raises(ServiceUnavailable, match="cannot be fetched from the image service"):
        images.fetch(image())


def test_credentials_go_along_and_a_refusal_names_the_options(tmp_path: Path, server: ImageServer) -> None:
    server.plan = ["401"]
    images = cache(tmp_path, server, username="compute", password="secret")
    with pytest.raises(ServiceUnavailable, match=r"see \[glance\] username and password") as caught:
        images.fetch(image())
    assert "secret" not in str(caught.value)
    images.fetch(image())
    assert server.requests[-1][1] == "Basic Y29tcHV0ZTpzZWNyZXQ="


@pytest.mark.parametrize("how", ["shortened", "changed", "grown", "unmarked", "removed"])
def test_a_cached_file_that_was_tampered_with_is_fetched_again(tmp_path: Path, server: ImageServer, how: str) -> None:
    images = cache(tmp_path, server)
    path = images.fetch(image())
    mark = path.with_name(f"{path.name}.json")
    match how:
        case "shortened":
            os.truncate(path, 100)
        case "grown":
            path.write_bytes(DATA + b"!")
        case "changed":
            path.write_bytes(b"R" + DATA[1:])
        case "unmarked":
            mark.unlink()
        case "removed":
            path.unlink()
    assert images.fetch(image()).read_bytes() == DATA
    assert mark.exists()
    # Without its mark the file is checked by its digest, and needs no download.
    assert len(server.requests) == (1 if how == "unmarked" else 2)


def test_a_file_that_stands_under_overlays_is_replaced_and_not_written_to(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    path = images.fetch(image())
    path.write_bytes(b"R" + DATA[1:])
    with path.open("rb") as open_file:
        images.fetch(image())
        assert open_file.read(1) == b"R"


def test_another_image_with_the_same_id_has_a_file_of_its_own(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    first = images.fetch(image())
    server.data = b"other bytes" * 1000
    assert images.fetch(image(server.data)).read_bytes() == server.data
    assert first.read_bytes() == DATA


def test_an_image_larger_than_the_disk_is_said_at_once(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    with pytest.raises(DiskFull, match="bytes free"):
        images.fetch(image(size=1 << 60))
    assert files(images) == set()


def test_what_a_killed_download_left_is_no_hindrance(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    images.folder.mkdir(parents=True)
    part = images.folder / f"{image().os_hash_value}.part"
    part.write_bytes(b"half" * 100000)
    assert images.fetch(image()).read_bytes() == DATA
    assert not part.exists()


def test_asking_for_a_cached_image_counts_as_use_of_it(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    path = images.fetch(image())
    os.utime(path.with_name(f"{path.name}.json"), (0, 0))
    os.utime(path, (0, 0))
    assert sweep(images.folder, (), 86400, 86399) == ()
    images.fetch(image())
    assert sweep(images.folder, (), 86400, time.time()) == ()
    assert sweep(images.folder, (), 86400, time.time() + 86401) == (path.name,)
    assert files(images) == set()


def test_bug_an_image_that_is_wanted_again_is_kept_by_the_sweep(tmp_path: Path, server: ImageServer) -> None:
    images = cache(tmp_path, server)
    assert not images.keep(image())
    path = images.fetch(image())
    old = time.time() - 86300
    os.utime(mark_file(path), (old, old))
    assert images.keep(image())
    assert sweep(images.folder, (), 86400, time.time() + 600) == ()
    assert len(server.requests) == 1
    path.unlink()
    assert not images.keep(image())
