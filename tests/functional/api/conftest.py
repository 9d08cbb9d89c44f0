"""The API's application over a database file, a conductor that writes rows, and computes that have consoles."""

import json
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import falcon.testing
import pytest

from minova import conf as configuration
from minova import errors
from minova.api.app import App, make_app
from minova.context import RequestContext
from minova.db.engine import Database
from minova.objects.guests.console import ConsoleAddress
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.hosts.node_audit import NodeAudit
from tests.fakes.row_conductor import RowConductor
from tests.tables import Rows, add_rows, copy_rows, create_all

Json = dict[str, Any]
UPTIME = " 08:32:11 up 93 days, 18:25, 12 users,  load average: 0.20, 0.12, 0.14\n"
# For requests whose answers have minova's own fields, and those of later microversions.
ALL_FIELDS: dict[str, Any] = {"headers": {"X-Minova-Fields": "all"}}


def at(version: str) -> dict[str, Any]:
    """For requests with this microversion of Compute."""
    return {"headers": {"OpenStack-API-Version": f"compute {version}"}}


class Consoles:
    """Stands for the computes: only consoles, audits and uptimes are asked of them here."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.addresses = {kind: ConsoleAddress(host="127.0.0.1", port=5900) for kind in ("novnc", "serial")}
        self.diagnostics: dict[str, GuestDiagnostics | Exception] = {}
        self.asked: list[tuple[str, str, int | None]] = []
        self.audits: dict[tuple[str, str], NodeAudit] = {}
        self.uptimes: dict[str, str | Exception] = {}

    def __call__(self, host: str) -> Any:
        consoles = self

        class Compute:
            def get_console_output(self, ctx: RequestContext, instance_uuid: str, tail_length: int | None) -> str:
                consoles.asked.append((host, instance_uuid, tail_length))
                if instance_uuid not in consoles.texts:
                    raise errors.NotFound(f"No domain {instance_uuid}")
                lines = consoles.texts[instance_uuid].splitlines(keepends=True)
                return "".join(lines if tail_length is None else lines[max(len(lines) - tail_length, 0) :])

            def get_console(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> ConsoleAddress:
                if instance_uuid not in consoles.texts:
                    raise errors.NotFound(f"No domain {instance_uuid}")
                return consoles.addresses[console_type]

            def get_diagnostics(self, ctx: RequestContext, instance_uuid: str) -> GuestDiagnostics:
                answer = consoles.diagnostics.get(instance_uuid, GuestDiagnostics(driver="fake"))
                if isinstance(answer, Exception):
                    raise answer
                return answer

            def get_host_uptime(self, ctx: RequestContext) -> str:
                uptime = consoles.uptimes.get(host, UPTIME)
                if isinstance(uptime, Exception):
                    raise uptime
                return uptime

            def audit_node(self, ctx: RequestContext, node: str) -> NodeAudit:
                return consoles.audits[host, node]

        return Compute()


class Cloud:
    """`options` are overrides of [api], and policy_file. Requests answer (status, document). `url`: of a database instead of a file."""

    def __init__(self, folder: Path, *, url: str | None = None, **options: Any) -> None:
        self.conf = configuration.new()
        self.conf([], project="minova", default_config_files=[])
        self.conf.set_override("state_path", str(folder))
        for name, value in options.items():
            self.conf.set_override(name, value, group="oslo_policy" if name == "policy_file" else "api")
        self._has_file = url is None
        self.url = url = url or f"sqlite:///{folder}/minova.sqlite"
        create_all(url)
        self.db = Database(url)
        self.readonly = Database(url, readonly=True)
        self.conductor = RowConductor(self.db)
        self.consoles = Consoles()
        self.app: App = make_app(self.conf, self.readonly, self.conductor, self.consoles)  # type: ignore[arg-type]
        self.client = falcon.testing.TestClient(self.app, headers={"Host": "localhost"})
        self.images = folder / "images"

    def close(self) -> None:
        self.readonly.close()
        self.db.close()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        if isinstance(body, bytes):
            more["body"] = body
        elif body is not None:
            more["body"] = json.dumps(body)
            more["headers"] = {"Content-Type": "application/json", **more.get("headers", {})}
        result = self.client.simulate_request(method, path, **more)
        return result.status_code, result.json if result.content else None

    def get(self, path: str, **more: Any) -> Any:
        status, answer = self.ask("GET", path, **more)
        assert status == 200, answer
        return answer

    def make_flavor(self, name: str = "tiny", **more: Any) -> Json:
        size = {"ram": 128, "vcpus": 1, "disk": 1}
        status, answer = self.ask("POST", "/v2.1/flavors", {"flavor": {"name": name, **size, **more}})
        assert status == 200, answer
        flavor: Json = answer["flavor"]
        return flavor

    def make_image(self, name: str = "guest", data: bytes | None = b"\0" * 1024, **more: Any) -> Json:
        """A raw image; `data` None leaves it queued."""
        record = {"name": name, "disk_format": "raw", "container_format": "bare", **more}
        status, image = self.ask("POST", "/v2/images", record)
        assert status == 201, image
        if data is not None:
            assert self.upload(image["id"], data)[0] == 204
        image_view: Json = self.get(f"/v2/images/{image['id']}")
        return image_view

    def upload(self, image_id: str, data: bytes, **headers: str) -> tuple[int, Any]:
        return self.ask(
            "PUT",
            f"/v2/images/{image_id}/file",
            data,
            headers={"Content-Type": "application/octet-stream", **headers},
        )

    def make_server(self, name: str = "vm", **more: Any) -> Json:
        headers = more.pop("headers", {})
        server = {"name": name, "flavorRef": self._flavor["id"], "imageRef": self._image["id"], **more}
        status, answer = self.ask("POST", "/v2.1/servers", {"server": server}, headers=headers)
        assert status == 202, answer
        created: Json = answer.get("server", answer)
        return created

    def with_catalogue(self) -> "Cloud":
        """A flavor and an image, which `make_server` takes. Of a cloud in a file they are copied: it must have no others, nor quotas."""
        if not self._has_file:
            self._flavor, self._image = self.make_flavor(), self.make_image()
            return self
        catalogue = _catalogue()
        self._flavor, self._image = dict(catalogue.flavor), dict(catalogue.image)
        add_rows(self.url, catalogue.rows)
        self.images.mkdir(exist_ok=True)
        (self.images / str(catalogue.image["id"])).write_bytes(catalogue.data)
        return self

    @property
    def server(self) -> Json:
        """A body that is right, for tests to spoil."""
        return {"name": "vm", "flavorRef": self._flavor["id"], "imageRef": self._image["id"]}


class Catalogue(NamedTuple):
    """`rows` are those of the flavor and the image, `data` the image's bytes."""

    flavor: Json
    image: Json
    rows: Rows
    data: bytes


@cache
def _catalogue() -> Catalogue:
    """Made by requests once in each process of tests: that takes as long as a short test."""
    with tempfile.TemporaryDirectory() as folder:
        cloud = Cloud(Path(folder))
        try:
            before = copy_rows(cloud.url)
            flavor, image = cloud.make_flavor(), cloud.make_image()
            rows = {name: rows for name, rows in copy_rows(cloud.url).items() if name not in before}
            return Catalogue(flavor, image, rows, (cloud.images / str(image["id"])).read_bytes())
        finally:
            cloud.close()


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(tmp_path)
    yield cloud
    cloud.close()


@pytest.fixture
def stocked(cloud: Cloud) -> Cloud:
    return cloud.with_catalogue()
