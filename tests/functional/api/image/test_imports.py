"""Imports: staged uploads, and downloads from an address that the user names."""

import hashlib
import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from minova import errors
from minova.api.image.importing import imports
from minova.api.image.storage import recovery
from minova.context import service_context
from minova.db import quotas
from minova.db.api_queries import images
from tests.functional.api.conftest import Cloud, Json
from tests.functional.api.image.test_images import REFUSED, files, make_old
from tests.waiting import wait_for

RAW = bytes(range(256)) * 4096
OCTETS = {"Content-Type": "application/octet-stream"}
DIRECT = {"method": {"name": "glance-direct"}}


def stage(cloud: Cloud, image: Json, data: bytes = RAW) -> tuple[int, Any]:
    return cloud.ask("PUT", f"/v2/images/{image['id']}/stage", data, headers=OCTETS)


def start(cloud: Cloud, image: Json, body: Any = DIRECT) -> tuple[int, Any]:
    return cloud.ask("POST", f"/v2/images/{image['id']}/import", body)


def shown(cloud: Cloud, image: Json) -> Json:
    document: Json = cloud.get(f"/v2/images/{image['id']}")
    return document


def used(cloud: Cloud) -> int:
    with cloud.db.read() as session:
        return quotas.current_usages(session, "admin")["image_size_total"]


# -- glance-direct -----------------------------------------------------------------------------------------------------


def test_staged_bytes_become_the_images(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    status, document = start(cloud, image)
    assert (status, document["message"]) == (
        409,
        "Image needs to be staged before 'glance-direct' method can be used",
    )
    assert stage(cloud, image) == (204, None)
    staged = shown(cloud, image)
    assert (staged["status"], staged["size"]) == ("uploading", len(RAW))
    assert cloud.ask("GET", f"/v2/images/{image['id']}/file") == (204, None), "no reader gets them yet"
    assert start(cloud, image) == (202, None)
    active = shown(cloud, image)
    assert (active["status"], active["os_hash_value"]) == ("active", hashlib.sha256(RAW).hexdigest())
    assert cloud.client.simulate_get(f"/v2/images/{image['id']}/file").content == RAW
    status, document = start(cloud, image)
    assert (status, document["message"]) == (409, "Image with status active cannot be target for import")


def test_staged_bytes_count_and_go_with_their_image(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    stage(cloud, image)
    assert used(cloud) == 1
    for data in (RAW, b"other"):
        assert stage(cloud, image, data)[0] == 409
        assert cloud.upload(image["id"], data)[0] == 409
    recovery.Recovery(cloud.app.images).recover()
    assert files(cloud) == [image["id"]]
    assert cloud.ask("DELETE", f"/v2/images/{image['id']}")[0] == 204
    assert (used(cloud), files(cloud)) == (0, [])


@pytest.mark.parametrize("what", REFUSED)
def test_staging_checks_as_an_upload_does(cloud: Cloud, what: str) -> None:
    disk_format, data = REFUSED[what]
    image = cloud.make_image(data=None, disk_format=disk_format)
    assert stage(cloud, image, data)[0] == 400
    assert (shown(cloud, image)["status"], files(cloud), used(cloud)) == ("queued", [], 0)


def test_staging_has_the_limits_of_uploads(cloud: Cloud) -> None:
    with cloud.db.write() as session:
        quotas.set_limits(session, "admin", {"image_size_total": 1})
    big, small = cloud.make_image(data=None), cloud.make_image(data=None)
    assert stage(cloud, big, RAW * 2)[0] == 403
    assert stage(cloud, small)[0] == 204
    assert stage(cloud, big, b"\0" * 512)[0] == 403, "what is staged counts"
    cloud.conf.set_override("image_size_cap", 100, group="api")
    assert stage(cloud, big)[0] == 413
    assert cloud.ask("PUT", f"/v2/images/{big['id']}/stage", b"x")[0] == 415


METHODS: list[tuple[Any, str]] = [
    ({}, "Import request requires a 'method' field."),
    ({"method": {}}, "Import request requires a 'name' field."),
    ({"method": "glance-direct"}, "Import request requires a 'name' field."),
    ({"method": {"name": "copy-image"}}, "Unknown import method name 'copy-image'."),
    ({"method": {"name": ["glance-direct"]}}, "Unknown import method name"),
    ({"method": {"name": "web-download", "uri": "http://example.org/"}}, "Unknown import method name 'web-download'."),
    ({**DIRECT, "all_stores": "yes"}, "'all_stores' must be boolean value only"),
    ({**DIRECT, "all_stores_must_succeed": False}, "can only be set with enabled_backends"),
]


@pytest.mark.parametrize(("body", "words"), METHODS)
def test_a_request_that_cannot_be_is_refused(cloud: Cloud, body: Any, words: str) -> None:
    image = cloud.make_image(data=None)
    status, document = start(cloud, image, body)
    assert status == 400
    assert words in document["message"]


def test_methods_are_told(cloud: Cloud) -> None:
    methods = cloud.get("/v2/info/import")["import-methods"]
    assert methods["value"] == ["glance-direct"]
    result = cloud.client.simulate_post("/v2/images", json={"name": "x"})
    assert result.headers["OpenStack-image-import-methods"] == "glance-direct"
    assert cloud.ask("GET", "/v2/info/stores")[1]["message"] == "Multi backend is not supported at this site."
    cloud.conf.set_override("enabled_import_methods", [], group="api")
    image = cloud.make_image(data=None)
    assert stage(cloud, image)[0] == 404
    assert start(cloud, image)[0] == 400


# -- web-download ------------------------------------------------------------------------------------------------------


class Web:
    """A server of one image on loopback; `/to/URL` leads elsewhere. `requests`: paths and Host headers."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str | None]] = []
        self.go_on = threading.Event()
        self.go_on.set()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.requests.append((self.path, self.headers["Host"]))
                web.answer(self)

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        if to.path.startswith("/to/"):
            to.send_response(302)
            to.send_header("Location", to.path.removeprefix("/to/"))
            to.end_headers()
            return
        if to.path == "/missing":
            to.send_error(404)
            return
        to.send_response(200)
        to.send_header("Content-Length", str(len(RAW)))
        to.end_headers()
        if to.path == "/slow":
            to.wfile.write(RAW[:100])
            self.go_on.wait(60)
        else:
            to.wfile.write(RAW[: len(RAW) // 2] if to.path == "/cut" else RAW)


@pytest.fixture(scope="module")
def server() -> Iterator[Web]:
    web = Web()
    web.thread.start()
    yield web
    web.server.shutdown()
    web.server.server_close()
    web.thread.join()


@pytest.fixture
def web(server: Web) -> Web:
    server.requests.clear()
    server.go_on.set()
    return server


@pytest.fixture
def open_cloud(tmp_path: Path, web: Web) -> Iterator[Cloud]:
    """It may fetch from loopback."""
    cloud = Cloud(tmp_path, enabled_import_methods=["glance-direct", "web-download"])
    cloud.conf.set_override("allowed_ports", [web.port], group="import_filtering_opts")
    cloud.conf.set_override("allowed_networks", ["127.0.0.1/32"], group="import_filtering_opts")
    yield cloud
    web.go_on.set()
    wait_for(
        "the end of the imports",
        lambda: not [thread for thread in threading.enumerate() if thread.name == "image import"],
    )
    cloud.close()


def download(cloud: Cloud, image: Json, uri: str) -> tuple[int, Any]:
    return start(cloud, image, {"method": {"name": "web-download", "uri": uri}})


def ended(cloud: Cloud, image: Json) -> Json:
    wait_for("the end of the import", lambda: shown(cloud, image)["status"] != "importing")
    return shown(cloud, image)


def test_an_image_is_fetched(open_cloud: Cloud, web: Web) -> None:
    image = open_cloud.make_image(data=None)
    uri = f"http://127.0.0.1:{web.port}/to/http://localhost:{web.port}/guest.raw?a=b"
    assert download(open_cloud, image, uri) == (202, None)
    active = ended(open_cloud, image)
    assert (active["status"], active["os_hash_value"]) == ("active", hashlib.sha256(RAW).hexdigest())
    assert web.requests[-1] == ("/guest.raw?a=b", f"localhost:{web.port}")
    wait_for("the end of the part", lambda: files(open_cloud) == [image["id"]])
    assert used(open_cloud) == 1


FAILURES = {
    "/missing": "The download failed: the server answers with status 404.",
    "/cut": "The download was broken off.",
    "/to/http://169.254.169.254/latest/meta-data": "URI for web-download does not pass filtering: http://169.254.169.254/",
    "/to/http://127.0.0.2/": "URI for web-download does not pass filtering: http://127.0.0.2/",
    "/to/file:///etc/passwd": "URI for web-download does not pass filtering: file:///etc/passwd",
    "/to/": "The download failed: more than 5 redirects.",
}


@pytest.mark.parametrize("path", FAILURES)
def test_a_download_that_fails_leaves_a_queued_image_that_says_why(open_cloud: Cloud, web: Web, path: str) -> None:
    image = open_cloud.make_image(data=None)
    base = f"http://127.0.0.1:{web.port}"
    assert download(open_cloud, image, f"{base}{path}")[0] == 202
    left = ended(open_cloud, image)
    assert left["status"] == "queued"
    assert left[imports.FAILURE].startswith(FAILURES[path])
    wait_for("the end of the file", lambda: files(open_cloud) == [])
    assert download(open_cloud, image, f"{base}/guest.raw")[0] == 202
    assert imports.FAILURE not in ended(open_cloud, image)


def test_what_may_not_be_fetched_is_refused_at_once(open_cloud: Cloud, web: Web) -> None:
    image = open_cloud.make_image(data=None)
    for uri in ("http://127.0.0.2/", "http://169.254.169.254/", f"http://127.0.0.1:{web.port + 1}/", "file:///x", 5):
        status, document = download(open_cloud, image, uri)  # type: ignore[arg-type]
        assert status == 400
        assert "does not pass filtering" in document["message"]
    assert shown(open_cloud, image) == image
    assert web.requests == []


def test_a_download_has_the_limits_of_uploads(open_cloud: Cloud, web: Web) -> None:
    open_cloud.conf.set_override("image_size_cap", 1000, group="api")
    image = open_cloud.make_image(data=None)
    download(open_cloud, image, f"http://127.0.0.1:{web.port}/guest.raw")
    assert "larger than 1000 bytes" in ended(open_cloud, image)[imports.FAILURE]
    open_cloud.conf.clear_override("image_size_cap", group="api")
    with open_cloud.db.write() as session:
        quotas.set_limits(session, "admin", {"image_size_total": 0})
    download(open_cloud, image, f"http://127.0.0.1:{web.port}/guest.raw")
    assert "Quota exceeded" in ended(open_cloud, image)[imports.FAILURE]
    wait_for("the end of the file", lambda: files(open_cloud) == [])


def test_a_slow_server_is_left_at_the_deadline(open_cloud: Cloud, web: Web) -> None:
    open_cloud.conf.set_override("web_download_timeout", 1, group="import_filtering_opts")
    web.go_on.clear()
    image = open_cloud.make_image(data=None)
    download(open_cloud, image, f"http://127.0.0.1:{web.port}/slow")
    assert ended(open_cloud, image)[imports.FAILURE] == "The download failed: it takes too long."


def test_headers_that_drip_are_left_at_the_deadline(open_cloud: Cloud) -> None:
    open_cloud.conf.set_override("web_download_timeout", 1, group="import_filtering_opts")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        open_cloud.conf.set_override("allowed_ports", [listener.getsockname()[1]], group="import_filtering_opts")

        def drip() -> None:
            peer, _ = listener.accept()
            with peer:
                try:
                    peer.sendall(b"HTTP/1.1 200 OK\r\n")
                    while True:
                        peer.sendall(b"X: y\r\n")
                        time.sleep(0.05)  # a server that never ends its answer
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        image = open_cloud.make_image(data=None)
        download(open_cloud, image, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        assert ended(open_cloud, image)["status"] == "queued"
        thread.join()


def test_few_downloads_run_at_the_same_time(open_cloud: Cloud, web: Web) -> None:
    web.go_on.clear()
    queued_images = [open_cloud.make_image(data=None) for _ in range(imports.MAX_DOWNLOADS + 1)]
    answers = [download(open_cloud, image, f"http://127.0.0.1:{web.port}/slow")[0] for image in queued_images]
    assert answers == [202] * imports.MAX_DOWNLOADS + [503]
    status, document = download(open_cloud, queued_images[0], f"http://127.0.0.1:{web.port}/slow")
    assert (status, document["message"]) == (409, "Image needs to be in 'queued' state to use 'web-download' method")
    # One that is deleted meanwhile leaves nothing.
    assert open_cloud.ask("DELETE", f"/v2/images/{queued_images[0]['id']}")[0] == 204
    web.go_on.set()
    for image in queued_images[1:]:
        ended(open_cloud, image)
    wait_for("the end of the file", lambda: files(open_cloud) == [])


def test_downloads_of_a_project_take_no_place_of_another_one(open_cloud: Cloud, web: Web) -> None:
    """A member took all of them with slow servers."""
    web.go_on.clear()
    uri = f"http://127.0.0.1:{web.port}/slow"
    mine = [open_cloud.make_image(data=None) for _ in range(imports.MAX_DOWNLOADS)]
    assert [download(open_cloud, image, uri)[0] for image in mine] == [202] * len(mine)
    bob = {"X-Auth-Token": "bob:demo"}
    record = {"name": "theirs", "disk_format": "raw", "container_format": "bare"}
    theirs = open_cloud.ask("POST", "/v2/images", record, headers=bob)[1]
    body = {"method": {"name": "web-download", "uri": uri}}
    assert open_cloud.ask("POST", f"/v2/images/{theirs['id']}/import", body, headers=bob)[0] == 202
    web.go_on.set()
    for image in (*mine, theirs):
        ended(open_cloud, image)


def test_a_download_whose_process_died_is_queued_again(cloud: Cloud) -> None:
    image = cloud.make_image(data=None)
    api = cloud.app.images
    coming = api.store.begin(image["id"])
    coming.keep = True
    coming.close()
    with cloud.readonly.read() as session:
        record = images.image(session, image["id"])
    assert record is not None
    cloud.conductor.change_image(service_context(), expected=record, image=imports._importing(record))
    make_old(cloud)
    recovery.Recovery(api).recover()
    assert (shown(cloud, image)["status"], files(cloud)) == ("queued", [])


def test_a_conductor_that_is_away_leaves_an_image_to_recovery(open_cloud: Cloud, web: Web) -> None:
    image = open_cloud.make_image(data=None)

    def gone(method: str) -> None:
        raise errors.ServiceUnavailable("no answer")

    web.go_on.clear()
    assert download(open_cloud, image, f"http://127.0.0.1:{web.port}/slow")[0] == 202
    open_cloud.conductor.before = gone
    web.go_on.set()
    wait_for(
        "the end of the imports",
        lambda: not [thread for thread in threading.enumerate() if thread.name == "image import"],
    )
    open_cloud.conductor.before = lambda method: None
    assert shown(open_cloud, image)["status"] == "importing"
    make_old(open_cloud)
    recovery.Recovery(open_cloud.app.images).recover()
    assert (shown(open_cloud, image)["status"], files(open_cloud)) == ("queued", [])
