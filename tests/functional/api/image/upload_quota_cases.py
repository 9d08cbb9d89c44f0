"""Uploads that have not ended count in the quota, on every engine. With real connections: a client may stop anywhere."""

import os
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import pytest

from minova.api.image import data
from minova.api.image.changes import records
from minova.api.image.storage import recovery
from minova.api.server import ApiService
from minova.context import service_context
from minova.db import quotas
from tests.functional.api.conftest import Cloud, Json
from tests.waiting import wait_for

MB = 1 << 20
LIMIT = 20
PATIENCE = 60.0


class Site(NamedTuple):
    """`sent`: bytes of the body that each connection has sent."""

    cloud: Cloud
    port: int
    sent: dict[socket.socket, int]

    def used(self) -> int:
        """In MB."""
        with self.cloud.db.read() as session:
            return quotas.current_usages(session, "admin")["image_size_total"]

    def status(self, image: Json) -> str:
        return str(self.cloud.get(f"/v2/images/{image['id']}")["status"])

    def stored(self) -> int:
        """Bytes on the disk, also those of files without a name."""
        folder = str(self.cloud.images)
        files = {path.stat().st_ino: path.stat() for path in self.cloud.images.glob("*") if path.is_file()}
        for opened in Path("/proc/self/fd").iterdir():
            with suppress(FileNotFoundError):
                if str(opened.readlink()).startswith(folder):
                    files[opened.stat().st_ino] = opened.stat()
        return sum(status.st_blocks * 512 for status in files.values())

    def begin(self, image: Json, length: int | None, sent: int) -> socket.socket:
        """Sends the head of an upload and a part of its body. `length` None: in chunks."""
        client = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        head = f"PUT /v2/images/{image['id']}/file HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        head += "Content-Type: application/octet-stream\r\n"
        head += "Transfer-Encoding: chunked\r\n\r\n" if length is None else f"Content-Length: {length}\r\n\r\n"
        client.sendall(head.encode())
        # The API reads no more of one that it refuses, and little at once of others on a busy machine.
        client.settimeout(0.2 if length is not None else PATIENCE)
        self.sent[client] = 0
        try:
            while self.sent[client] < sent:
                if length is None:
                    client.sendall(b"100000\r\n" + bytes(MB) + b"\r\n")
                    self.sent[client] += MB
                else:
                    self.sent[client] += client.send(bytes(min(MB, sent - self.sent[client])))
        except OSError:
            pass
        client.settimeout(PATIENCE)
        return client


def make_site(folder: Path, url: str | None) -> Iterator[Site]:
    cloud = Cloud(folder, url=url, osapi_compute_listen_port=0)
    service = ApiService(cloud.conf, cloud.app)
    service.start()
    with cloud.db.write() as session:
        quotas.set_limits(session, "admin", {"image_size_total": LIMIT})
    yield Site(cloud, service.port, {})
    service.stop()
    cloud.close()


def refused(client: socket.socket) -> bool:
    """Whether the upload has been answered 403 by now."""
    client.setblocking(False)
    try:
        return client.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 403"
    except OSError:
        return False
    finally:
        client.settimeout(PATIENCE)


class UploadQuotaCases:
    @pytest.mark.parametrize("announced", [True, False])
    def test_bug_parallel_uploads_that_do_not_end_exceed_the_quota(self, site: Site, announced: bool) -> None:
        """Twelve uploads of 9 MB, of which all but the last MB has come, took 100 MB of a quota of 20."""
        images = [site.cloud.make_image(f"image{number}", data=None) for number in range(12)]
        clients = [site.begin(image, 9 * MB if announced else None, 8 * MB) for image in images]
        try:
            wait_for("all others are refused", lambda: sum(map(refused, clients)) >= 10, PATIENCE)
            assert site.used() <= LIMIT
            assert site.stored() <= LIMIT * MB
            # Without a length, one that is being refused can still hold what the last two need.
            accepted = [client for client in clients if not refused(client)]
            assert len(accepted) == 2 or not announced
            for client in accepted:
                client.sendall(
                    bytes(9 * MB - site.sent[client]) if announced else b"100000\r\n" + bytes(MB) + b"\r\n0\r\n\r\n"
                )
                assert client.recv(100).startswith(b"HTTP/1.1 204")
            statuses = Counter(map(site.status, images))
            assert statuses == Counter(active=len(accepted), queued=12 - len(accepted))
            assert site.used() == 9 * len(accepted)
        finally:
            for client in clients:
                client.close()

    @pytest.mark.parametrize("announced", [True, False])
    def test_client_that_goes_leaves_the_quota_as_it_was(self, site: Site, announced: bool) -> None:
        image = site.cloud.make_image(data=None)
        with closing(site.begin(image, 9 * MB if announced else None, 4 * MB)):
            wait_for("the reservation", lambda: site.used() > 0)
        wait_for("the quota is free again", lambda: (site.used(), site.status(image)) == (0, "queued"), PATIENCE)
        assert site.cloud.upload(image["id"], bytes(LIMIT * MB))[0] == 204
        assert site.used() == LIMIT

    def test_deleted_image_keeps_no_bytes_while_its_upload_goes_on(self, site: Site) -> None:
        """Its quota is free at once, so its bytes must be gone, too: else uploads of deleted images fill the disk."""
        image = site.cloud.make_image(data=None)
        with closing(site.begin(image, LIMIT * MB, 8 * MB)) as client:
            wait_for("bytes have come", lambda: site.stored() >= site.sent[client] - 2 * MB, PATIENCE)
            assert site.used() == LIMIT
            assert site.cloud.ask("DELETE", f"/v2/images/{image['id']}")[0] == 204
            assert (site.used(), site.stored()) <= (0, 2 * MB)
            client.sendall(bytes(3 * MB))
            assert client.recv(100).startswith(b"HTTP/1.1 404")
        wait_for("the file is gone", lambda: site.stored() == 0)

    def test_reservation_of_a_process_that_died_is_given_back(self, site: Site) -> None:
        image = site.cloud.make_image(data=None)
        api = site.cloud.app.images
        coming = api.store.begin(image["id"])
        records.change(api, service_context(), image["id"], lambda found: data._saving(found, 7 * MB))
        coming.keep = True
        coming.close()
        assert site.used() == 7
        os.utime(coming.path, (0, 0))
        recovery.Recovery(api).recover()
        assert (site.used(), site.status(image)) == (0, "queued")

    def test_image_deleted_by_another_process_is_stopped(self, site: Site) -> None:
        image = site.cloud.make_image(data=None)
        with closing(site.begin(image, LIMIT * MB, 8 * MB)) as client:
            wait_for("bytes have come", lambda: site.stored() >= site.sent[client] - 2 * MB, PATIENCE)
            site.cloud.conductor.delete_image(service_context(), image_id=image["id"])
            recovery.Recovery(site.cloud.app.images).recover()
            assert site.stored() <= 2 * MB

    def test_changes_of_the_record_during_an_upload_keep_the_reservation(self, site: Site) -> None:
        image = site.cloud.make_image(data=None)
        with closing(site.begin(image, 9 * MB, 4 * MB)) as client:
            wait_for("the reservation", lambda: site.used() == 9)
            assert site.cloud.ask("PUT", f"/v2/images/{image['id']}/tags/new")[0] == 204
            assert site.used() == 9
            client.sendall(bytes(9 * MB - site.sent[client]))
            assert client.recv(100).startswith(b"HTTP/1.1 204")
        assert site.used() == 9
        assert "reserved" not in site.cloud.get(f"/v2/images/{image['id']}")

    def test_recount_finds_the_same(self, site: Site) -> None:
        image = site.cloud.make_image(data=None)
        with closing(site.begin(image, 9 * MB, 4 * MB)):
            wait_for("the reservation", lambda: site.used() == 9)
            with site.cloud.db.write() as session:
                assert quotas.recount(session, "admin") == {}
