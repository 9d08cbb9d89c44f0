"""Placement's application over a database file, as minova-placement-api --dev serves it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import falcon.testing
import pytest
from sqlalchemy import select

from minova import conf as configuration
from minova.api.access.auth import placement_authenticator
from minova.api.placement.app import make_app
from minova.db.engine import Database
from minova.db.models import Base
from tests.functional.scheduler.cloud import fresh, named

Json = dict[str, Any]
LATEST = "1.39"
ADMIN = {"X-Auth-Token": "admin"}


class Answer(NamedTuple):
    """`body`: the document, None where there is none."""

    status: int
    body: Any
    headers: Json

    @property
    def error(self) -> Json:
        entry: Json = self.body["errors"][0]
        return entry


class PlacementCloud:
    """`url`: of a database, default, the one in `folder`. Names stand for uuids: `named("a")` is the uuid of provider or consumer a. Options as group__name."""

    def __init__(self, folder: Path, *, url: str | None = None, **options: Any) -> None:
        self.conf = configuration.load([], "test", files=[])
        self.conf.set_override("state_path", str(folder))
        self.conf.set_override("auth_strategy", "noauth2", group="placement")
        for name, value in options.items():
            group, _, option = name.partition("__")
            self.conf.set_override(option, value, group=group)
        url = url or f"sqlite:///{folder}/minova.sqlite"
        self.db = Database(url)
        self.reads = Database(url, readonly=True)
        self.app = make_app(self.conf, placement_authenticator(self.conf), self.reads, lambda: self.db)

    def close(self) -> None:
        self.reads.close()
        self.db.close()

    def ask(
        self, method: str, path: str, body: Any = None, version: str | None = LATEST, root: str = "", **headers: str
    ) -> Answer:
        """`root`: where Placement is mounted."""
        sent = {"Accept": "application/json", **ADMIN, **{k.replace("_", "-"): v for k, v in headers.items()}}
        if version is not None:
            sent["OpenStack-API-Version"] = f"placement {version}"
        if body is not None:
            sent.setdefault("Content-Type", "application/json")
        text = "" if body is None else body if isinstance(body, str) else json.dumps(body)
        path, _, query = path.partition("?")
        # Not falcon's client: it insists on a Content-Type where there is nothing, and Placement has none there.
        environ = falcon.testing.create_environ(
            path, query, method=method, headers=sent, body=text, root_path=root, host="localhost"
        )
        seen = falcon.testing.StartResponseMock()
        content = b"".join(self.app(environ, seen))
        received = {name.lower(): value for name, value in seen.headers or ()}
        document: Any = content.decode()
        if received.get("content-type") == "application/json":
            document = json.loads(content)
        return Answer(int(str(seen.status).split()[0]), document or None, received)

    def right(self, method: str, path: str, body: Any = None, version: str = LATEST) -> Any:
        answer = self.ask(method, path, body, version)
        assert answer.status < 300, answer
        return answer.body

    def provider(self, name: str, parent: str | None = None, **inventories: Any) -> str:
        """Its uuid. An inventory is a total or a dict."""
        uuid = named(name)
        new_provider = {"name": name, "uuid": uuid, "parent_provider_uuid": parent and named(parent)}
        self.right("POST", "/resource_providers", new_provider)
        if inventories:
            whole = {c: {"total": n} if isinstance(n, int) else n for c, n in inventories.items()}
            body = {"resource_provider_generation": 0, "inventories": whole}
            self.right("PUT", f"/resource_providers/{uuid}/inventories", body)
        return uuid

    def put(self, consumer: str, generation: int | None = None, **held: dict[str, int]) -> Answer:
        """What a consumer shall hold: {provider: {class: amount}}."""
        return self.ask("PUT", f"/allocations/{named(consumer)}", holding(generation, **held))

    def held(self, consumer: str) -> Json:
        allocations: Json = self.right("GET", f"/allocations/{named(consumer)}")["allocations"]
        return {uuid: of["resources"] for uuid, of in allocations.items()}

    def everything(self) -> list[str]:
        """All rows of all tables."""
        with self.db.read() as session:
            tables = Base.metadata.sorted_tables
            return sorted(f"{table.name} {row}" for table in tables for row in session.execute(select(table)))

    def used(self, provider: str) -> Json:
        usages: Json = self.right("GET", f"/resource_providers/{named(provider)}/usages")["usages"]
        return usages


def holding(generation: int | None = None, **held: dict[str, int]) -> Json:
    return {
        "allocations": {named(provider): {"resources": resources} for provider, resources in held.items()},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


@pytest.fixture(scope="session")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with all tables: to copy it is quicker than to make them."""
    file = tmp_path_factory.mktemp("empty") / "minova.sqlite"
    fresh(f"sqlite:///{file}").close()
    return file


@pytest.fixture
def folder(tmp_path: Path, empty: Path) -> Path:
    """With an empty database."""
    shutil.copy(empty, tmp_path)
    return tmp_path


@pytest.fixture
def cloud(folder: Path) -> Iterator[PlacementCloud]:
    placement_cloud = PlacementCloud(folder)
    yield placement_cloud
    placement_cloud.close()


def add_examples(cloud: PlacementCloud) -> None:
    """Provider a with its child b, and other; consumer one holds of a. A custom class and a custom trait."""
    cloud.right("PUT", "/resource_classes/CUSTOM_GOLD")
    cloud.right("PUT", "/traits/CUSTOM_FAST")
    cloud.provider("a", VCPU=8, MEMORY_MB={"total": 4096, "min_unit": 256, "max_unit": 2048, "step_size": 256})
    cloud.provider("b", "a", CUSTOM_GOLD=2)
    cloud.provider("other", VCPU=4)
    traits = {"resource_provider_generation": 1, "traits": ["CUSTOM_FAST"]}
    cloud.right("PUT", f"/resource_providers/{named('a')}/traits", traits)
    assert cloud.put("one", a={"VCPU": 2}).status == 204


@pytest.fixture(scope="session")
def stock(tmp_path_factory: pytest.TempPathFactory, empty: Path) -> Path:
    """A database file that is stocked up."""
    folder = tmp_path_factory.mktemp("stock")
    shutil.copy(empty, folder)
    cloud = PlacementCloud(folder)
    add_examples(cloud)
    cloud.close()
    return folder / "minova.sqlite"


@pytest.fixture
def stocked(tmp_path: Path, stock: Path) -> Iterator[PlacementCloud]:
    """See `add_examples`."""
    shutil.copy(stock, tmp_path)
    placement_cloud = PlacementCloud(tmp_path)
    yield placement_cloud
    placement_cloud.close()
