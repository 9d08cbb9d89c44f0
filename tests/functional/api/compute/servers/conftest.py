"""A Neutron beside the cloud."""

import falcon.testing
import msgspec
import pytest

from minova.api import app
from tests.fakes.neutron import FakeNeutron
from tests.functional.api.conftest import Cloud


@pytest.fixture
def neutron(stocked: Cloud, monkeypatch: pytest.MonkeyPatch) -> FakeNeutron:
    """Beside `stocked`, from now on."""
    fake = FakeNeutron()
    monkeypatch.setattr(app, "with_neutron", lambda conf, servers: msgspec.structs.replace(servers, neutron=fake))
    work_with(stocked, "neutron")
    return fake


def work_with(cloud: Cloud, backend: str) -> None:
    """The API is started anew."""
    cloud.conf.set_override("backend", backend, group="neutron")
    wsgi_app = app.make_app(cloud.conf, cloud.readonly, cloud.conductor, cloud.consoles)  # type: ignore[arg-type]
    cloud.client = falcon.testing.TestClient(wsgi_app, headers={"Host": "localhost"})
