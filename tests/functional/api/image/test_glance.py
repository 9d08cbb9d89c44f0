"""What minova-api does with a Glance that fails, refuses, or has lost an image. tests/integration/keystone has a real one."""

import json
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import falcon.testing
import msgspec
import pytest
from keystoneauth1 import loading

from minova import conf as configuration
from minova import errors
from minova.api.app import make_app
from minova.api.http import app as http
from minova.api.image.glance.client import GlanceClient
from minova.api.image.glance.images import SERVICE, GlanceData, image_of
from minova.api.image.glance.proxy import GlanceProxy
from minova.api.image.proxy import Filters
from minova.api.image.storage import recovery
from minova.api.image.tokens import TokenAuthenticator, TokenDefinition, TokenKeys
from minova.api.policies.enforcer import Policy
from minova.context import service_context
from minova.db import quotas
from minova.db.api_queries import images
from minova.db.catalogue import image_token_keys
from minova.db.catalogue import images as image_rows
from minova.image_tokens import Right, sign
from minova.objects.catalogue.image import Image
from tests.functional.api.conftest import Cloud
from tests.servers.private_server import free_ports

ID = "8d3e7b02-5d3c-4f3c-a0e8-1d5f8f6b2f00"
DOCUMENT = {
    "id": ID, "name": "guest", "status": "active", "visibility": "private", "protected": False, "os_hidden": False,
    "owner": "demo", "tags": ["a"], "disk_format": "raw", "container_format": "bare", "min_disk": 1, "min_ram": 0,
    "size": 3, "virtual_size": 3, "checksum": "c", "os_hash_algo": "sha512", "os_hash_value": "abc",
    "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:01Z", "self": f"/v2/images/{ID}",
    "file": f"/v2/images/{ID}/file", "schema": "/v2/schemas/image", "stores": "file", "os_distro": "debian",
    "owner_specified.openstack.md5": "",
}  # fmt: skip


class ScriptedGlance:
    """`statuses`: of the next answers, then all is well. `requests`: method, path, token and body of each."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.document: Any = DOCUMENT
        self.requests: list[tuple[str, str, str | None, bytes]] = []
        glance = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                glance.answer(self)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names are the library's

            def log_message(self, *_: Any) -> None:
                """Silent."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def answer(self, to: BaseHTTPRequestHandler) -> None:
        body = to.rfile.read(int(to.headers["Content-Length"] or 0)) if "Content-Length" in to.headers else b""
        if to.headers.get("Transfer-Encoding") == "chunked":
            while size := int(to.rfile.readline(), 16):
                body += to.rfile.read(size)
                to.rfile.readline()
            to.rfile.readline()
        self.requests.append((to.command, to.path, to.headers.get("X-Auth-Token"), body))
        usual = {"GET": 200, "POST": 201, "PUT": 204, "PATCH": 200, "DELETE": 204}[to.command]
        status = self.statuses.pop(0) if self.statuses else usual
        data = b"abc" if to.path.endswith("/file") else json.dumps(self.document).encode()
        data = b"" if status == 204 else data if status < 300 else b"<html>Quota  <b>exceeded</b></html>"
        to.send_response(status)
        to.send_header("Content-Length", str(len(data)))
        to.end_headers()
        to.wfile.write(data)


@pytest.fixture(scope="module")
def server() -> Iterator[ScriptedGlance]:
    glance = ScriptedGlance()
    glance.thread.start()
    yield glance
    glance.server.shutdown()
    glance.server.server_close()
    glance.thread.join()


@pytest.fixture
def glance(server: ScriptedGlance) -> ScriptedGlance:
    server.statuses.clear()
    server.requests.clear()
    server.document = DOCUMENT
    return server


def client_of(*urls: str, tries: int = 3, **options: Any) -> GlanceClient:
    conf = configuration.load([], "test", files=[])
    conf.set_override("api_servers", list(urls), "glance")
    conf.set_override("num_retries", tries - 1, "glance")
    for name, value in options.items():
        conf.set_override(name, value, "glance")
    # A service user that needs no Keystone; keystoneauth calls its token "notused".
    loading.register_auth_conf_options(conf, "service_user")
    conf.set_override("auth_type", "none", "service_user")
    return GlanceClient(conf)


@pytest.fixture
def client(glance: ScriptedGlance) -> GlanceClient:
    return client_of(glance.url)


def test_an_image_has_fields_and_properties_as_the_built_in_ones(client: GlanceClient, glance: ScriptedGlance) -> None:
    document = client.image(ID, "alices")
    assert document is not None
    image = image_of(document)
    assert (image.os_hash_algo, image.min_disk, image.tags, image.owner) == ("sha512", 1, ("a",), "demo")
    assert image.properties == {"os_distro": "debian", "owner_specified.openstack.md5": ""}
    assert glance.requests == [("GET", f"/v2/images/{ID}", "alices", b"")]
    with pytest.raises(errors.ServiceUnavailable):
        image_of({**DOCUMENT, "min_ram": "much"})


# -- the Compute API's /images -------------------------------------------------------------------------------------------


def proxied(image_id: str = ID) -> Any:
    """A call of a user to the proxy, which reads its path and its token alone."""
    request = falcon.testing.create_req(headers={"X-Auth-Token": "alices"})
    return SimpleNamespace(request=request, path={"image_id": image_id})


def test_the_proxy_lists_with_the_users_token(client: GlanceClient, glance: ScriptedGlance) -> None:
    glance.document = {"images": [DOCUMENT]}
    filters = Filters(name="a b", updated_at="gte:2026-01-31T12:00:00Z", others={"os_distro": "debian"})
    assert [image.id for image in GlanceProxy(client).page(proxied(), filters, 7, ID)] == [ID]
    ((method, path, token, _),) = glance.requests
    query = dict(parse_qsl(urlsplit(path).query))
    assert (method, token) == ("GET", "alices")
    assert query == {
        "name": "a b", "updated_at": "gte:2026-01-31T12:00:00Z", "os_distro": "debian", "limit": "7", "marker": ID
    }  # fmt: skip


def test_the_proxy_patches_what_differs(client: GlanceClient, glance: ScriptedGlance) -> None:
    def make(before: dict[str, str]) -> dict[str, str]:
        assert before["os_distro"] == "debian"
        return {"os_distro": "alpine", "a/b~c": "new"}

    assert GlanceProxy(client).set_properties(proxied(), make) == {"os_distro": "alpine", "a/b~c": "new"}
    method, path, token, body = glance.requests[-1]
    assert (method, path, token) == ("PATCH", f"/v2/images/{ID}", "alices")
    assert json.loads(body) == [
        {"op": "remove", "path": "/owner_specified.openstack.md5"},
        {"op": "replace", "path": "/os_distro", "value": "alpine"},
        {"op": "add", "path": "/a~1b~0c", "value": "new"},
    ]
    GlanceProxy(client).set_properties(proxied(), lambda before: before)
    assert glance.requests[-1][0] == "GET", "nothing to change"


@pytest.mark.parametrize(
    ("status", "kind"),
    [(403, errors.Forbidden), (404, errors.NotFound), (409, errors.Conflict), (400, errors.BadRequest)],
)
def test_the_proxy_passes_refusals_on(
    client: GlanceClient, glance: ScriptedGlance, status: int, kind: type[Exception]
) -> None:
    glance.statuses = [status]
    with pytest.raises(kind, match="Quota exceeded"):
        GlanceProxy(client).delete(proxied())
    assert glance.requests == [("DELETE", f"/v2/images/{ID}", "alices", b"")]


def test_an_image_that_an_earlier_try_deleted_is_deleted(client: GlanceClient, glance: ScriptedGlance) -> None:
    for statuses in ([204], [500, 404], [500, 500, 204]):
        glance.statuses = statuses
        GlanceProxy(client).delete(proxied())
    assert len(glance.requests) == 6


def test_the_proxy_asks_nothing_of_what_can_be_no_id(client: GlanceClient, glance: ScriptedGlance) -> None:
    proxy = GlanceProxy(client)
    for ask in (proxy.show, proxy.delete, lambda call: proxy.set_properties(call, dict)):
        with pytest.raises(errors.NotFound):
            ask(proxied("x/../y?z"))
    assert glance.requests == []


@pytest.mark.parametrize("status", [401, 403, 404])
def test_what_a_user_may_not_see_is_unknown(client: GlanceClient, glance: ScriptedGlance, status: int) -> None:
    glance.statuses = [status]
    assert client.image(ID, "alices") is None


def test_a_service_user_that_is_refused_is_no_missing_image(client: GlanceClient, glance: ScriptedGlance) -> None:
    """Else records of images would be forgotten."""
    glance.statuses = [403]
    with pytest.raises(errors.ServiceUnavailable):
        client.image(ID)


def test_the_next_server_is_asked_after_a_failure(glance: ScriptedGlance) -> None:
    (closed,) = free_ports(1)
    several = client_of(f"http://127.0.0.1:{closed}/", f"{glance.url}/v2")
    assert [several.image(ID, "alices") for _ in range(3)] == [DOCUMENT] * 3
    glance.statuses = [500, 502, 503]
    with pytest.raises(errors.ServiceUnavailable, match="does not answer"):
        client_of(glance.url).image(ID, "alices")
    with pytest.raises(errors.ServiceUnavailable, match="does not answer"):
        client_of(f"http://127.0.0.1:{closed}").image(ID, "alices")


def test_bug_each_try_during_an_outage_logged_a_line(glance: ScriptedGlance, caplog: pytest.LogCaptureFixture) -> None:
    client = client_of(glance.url)
    glance.statuses = [503] * 3 * 20
    for _ in range(20):
        with pytest.raises(errors.ServiceUnavailable):
            client.image(ID, "alices")
    client.image(ID, "alices")
    first, last = [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]
    assert first == f"Glance does not answer: it answers GET /v2/images/{ID} with status 503"
    assert last.startswith("Glance answers again after ")


def test_refusals_of_a_new_image_are_told_in_glances_words(client: GlanceClient, glance: ScriptedGlance) -> None:
    glance.statuses = [413]
    with pytest.raises(errors.Forbidden, match="refuses the image: Quota exceeded"):
        client.create({"id": ID}, "alices")
    glance.statuses = [409]
    client.create({"id": ID}, "alices")  # an earlier try made it, and its answer was lost


def test_bytes_are_read_in_pieces_of_the_option(glance: ScriptedGlance) -> None:
    with closing(client_of(glance.url, image_chunk_size=2).data(ID)) as data:
        assert (data.length, list(data)) == (3, [b"ab", b"c"])


def test_bytes_are_sent_once(client: GlanceClient, glance: ScriptedGlance) -> None:
    client.upload(ID, iter([b"a", b"bc"]))
    assert glance.requests == [("PUT", f"/v2/images/{ID}/file", "notused", b"abc")]
    for status, kind in ((404, errors.NotFound), (413, errors.Forbidden), (401, errors.ServiceUnavailable)):
        glance.requests.clear()
        glance.statuses = [status]
        with pytest.raises(kind):
            client.upload(ID, iter([b"abc"]))
        assert len(glance.requests) == 1, "what is left of a stream is never sent as the whole"
    glance.statuses = [409]
    client.upload(ID, iter([b"abc"]))  # it is active: an earlier upload was done
    glance.statuses, glance.document = [409], {**DOCUMENT, "status": "saving"}
    with pytest.raises(errors.ServiceUnavailable):
        client.upload(ID, iter([b"abc"]))


def tracked(cloud: Cloud) -> list[tuple[str, str]]:
    with cloud.readonly.read() as session:
        return [(image.id, image.status) for image in images.of_service(session, SERVICE)]


def track(cloud: Cloud, image_id: str, status: str) -> None:
    image = Image(id=image_id, owner="admin", service=SERVICE, disk_format="qcow2", container_format="bare")
    cloud.conductor.create_image(service_context(), image=image)
    cloud.conductor.change_image(service_context(), expected=image, image=msgspec.structs.replace(image, status=status))


def test_what_a_conductor_deletes_goes_in_glance_and_then_here(
    cloud: Cloud, client: GlanceClient, glance: ScriptedGlance
) -> None:
    api = msgspec.structs.replace(cloud.app.images, remote=GlanceData(client))
    track(cloud, ID, "active")
    recovery.Recovery(api).recover()
    assert tracked(cloud) == [(ID, "active")]
    assert cloud.db.run(lambda session: image_rows.remove(session, ID))
    assert not cloud.db.run(lambda session: image_rows.remove(session, ID)), "it is removed already"
    assert tracked(cloud) == [(ID, "pending_delete")]
    glance.statuses = [503, 503, 503]
    with pytest.raises(errors.ServiceUnavailable):
        recovery.Recovery(api).recover()
    assert tracked(cloud) == [(ID, "pending_delete")], "until Glance has deleted it"
    glance.requests.clear()
    recovery.Recovery(api).recover()
    assert ("DELETE", f"/v2/images/{ID}", "notused", b"") in glance.requests
    assert tracked(cloud) == []


class UploadCloud:
    """An upload with a token of a conductor."""

    def __init__(self, cloud: Cloud, client: GlanceClient) -> None:
        self.api = msgspec.structs.replace(cloud.app.images, remote=GlanceData(client))
        keys = image_token_keys.ensure(cloud.db)
        headers = {"Authorization": f"Bearer {sign(keys.accepted[-1], ID, keys.now, Right.UPLOAD)}"}
        self.headers = {**headers, "Content-Type": "application/octet-stream", "Host": "localhost"}
        authenticator = TokenAuthenticator(cloud.conf, TokenKeys(cloud.readonly))
        self.client = falcon.testing.TestClient(
            http.make_app(TokenDefinition(self.api), authenticator, Policy(cloud.conf))
        )

    def put(self) -> int:
        return self.client.simulate_put(f"/v2/images/{ID}/file", body=b"abc", headers=self.headers).status_code


def test_an_upload_goes_to_glance_and_its_facts_come_here(
    cloud: Cloud, client: GlanceClient, glance: ScriptedGlance
) -> None:
    upload = UploadCloud(cloud, client)
    assert upload.put() == 404
    track(cloud, ID, "queued")
    glance.statuses = [503]
    assert upload.put() == 503
    assert tracked(cloud) == [(ID, "queued")]
    assert upload.put() == 204
    with cloud.readonly.read() as session:
        image = images.image(session, ID)
    assert image is not None
    assert (image.status, image.os_hash_algo, image.os_hash_value, image.size) == ("active", "sha512", "abc", 3)
    assert upload.put() == 409
    assert list(cloud.images.glob("*")) == []


def test_an_image_that_was_deleted_in_glance_takes_no_bytes(
    cloud: Cloud, client: GlanceClient, glance: ScriptedGlance
) -> None:
    upload = UploadCloud(cloud, client)
    track(cloud, ID, "queued")
    glance.statuses = [404]
    assert upload.put() == 404
    assert tracked(cloud) == []


def test_a_task_that_ends_during_the_upload_leaves_nothing_in_glance(
    cloud: Cloud, client: GlanceClient, glance: ScriptedGlance
) -> None:
    upload = UploadCloud(cloud, client)
    track(cloud, ID, "queued")
    calls = iter(range(10))

    def ends(method: str) -> None:
        if next(calls) == 1:  # the bytes are in Glance
            assert cloud.db.run(lambda session: image_rows.remove(session, ID))

    cloud.conductor.before = ends
    assert upload.put() == 409
    assert tracked(cloud) == [(ID, "pending_delete")]
    recovery.Recovery(upload.api).recover()
    assert ("DELETE", f"/v2/images/{ID}", "notused", b"") in glance.requests
    assert tracked(cloud) == []


def test_an_image_that_its_user_has_deleted_in_glance_is_forgotten(
    cloud: Cloud, client: GlanceClient, glance: ScriptedGlance
) -> None:
    now = [0.0]
    api = msgspec.structs.replace(cloud.app.images, remote=GlanceData(client, lambda: now[0]))
    track(cloud, ID, "active")
    recovery.Recovery(api).recover()
    glance.statuses = [404]
    recovery.Recovery(api).recover()
    assert tracked(cloud) == [(ID, "active")], "looked at once an hour"
    now[0] = 4000.0
    recovery.Recovery(api).recover()
    assert tracked(cloud) == []


def test_images_of_glance_count_in_no_quota_here(cloud: Cloud) -> None:
    track(cloud, ID, "active")
    with cloud.readonly.read() as session:
        assert quotas.counted(session, "admin", ["image_count_total"]) == {"image_count_total": 0}


def test_glance_needs_keystone(cloud: Cloud) -> None:
    conf = configuration.load([], "test", files=[])
    conf.set_override("backend", "glance", "glance")
    with pytest.raises(errors.InvalidConfiguration, match="auth_strategy = keystone"):
        make_app(conf, cloud.readonly, cloud.conductor, cloud.consoles)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidConfiguration, match="auth_type and a user"):
        GlanceClient(conf)
