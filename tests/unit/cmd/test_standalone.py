"""minova-standalone, before its services start."""

from pathlib import Path

import pytest

from minova import conf as configuration
from minova.cmd import standalone


@pytest.mark.parametrize(("address", "url"), [("127.0.0.1", "http://127.0.0.1:8774"), ("::1", "http://[::1]:8774")])
def test_its_images_are_its_own(tmp_path: Path, address: str, url: str) -> None:
    conf = configuration.load(["--state-dir", str(tmp_path)], "test", files=[], cli=standalone.CLI)
    configuration.override(conf, "api.osapi_compute_listen", address)
    standalone.prepare(conf)
    assert conf.glance.endpoint_override == url
