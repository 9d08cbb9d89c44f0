"""The user of [keystone_authtoken] is tried when minova-api starts."""

from pathlib import Path

import pytest

from minova import errors
from minova.api.access.auth import authenticator, placement_authenticator
from tests.cluster import configure
from tests.servers.keystone import Keystone


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("password = wrong", "refuses the service user.*authentication"),
        ("username = nobody", "refuses the service user.*authentication"),
        ("project_name = nothing", "refuses the service user.*authentication"),
        ("auth_type = telepathy", r"\[keystone_authtoken\].*telepathy"),
        ("auth_type =", "auth_type is not set"),
        ("http_connect_timeout = soon", r"\[keystone_authtoken\].*soon"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, keystone_options: str, line: str, expected: str) -> None:
    name = line.partition(" ")[0]
    lines = Path(keystone_options).read_text().splitlines()
    file = tmp_path / "minova.conf"
    file.write_text("\n".join([*(other for other in lines if not other.startswith(f"{name} ")), line]))
    with pytest.raises(errors.InvalidConfiguration, match=expected):
        authenticator(configure(tmp_path, files=[str(file)]))


def test_placement_alone_takes_tokens_too(tmp_path: Path, keystone: Keystone, keystone_options: str) -> None:
    conf = configure(tmp_path, files=[keystone_options])
    assert type(placement_authenticator(conf)).__name__ == "Keystone"
