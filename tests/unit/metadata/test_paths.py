"""The paths of the metadata service, as Nova answers them."""

import base64
import json

import pytest

from minova.metadata.paths import BYTES, JSON, TEXT, document, is_password, parts
from tests.unit.virt.config_drive.test_contents import USER_DATA, VIF, made

FILES = made(
    user_data=base64.b64encode(USER_DATA).decode(),
    network_info=(VIF,),
    metadata={"role": "web"},
    key_name="mine",
    key_data="ssh-ed25519 AAAA me",
)


def text(path: str) -> str:
    page = document(FILES, parts(path))
    assert page is not None, path
    assert page.media_type == TEXT
    return page.content.decode()


@pytest.mark.parametrize(
    ("path", "lines"),
    [
        (
            "/",
            "1.0 2007-01-19 2007-03-01 2007-08-29 2007-10-10 2007-12-15 2008-02-01 2008-09-01 2009-04-04 latest",
        ),
        (
            "/openstack",
            "2012-08-10 2013-04-04 2013-10-17 2015-10-15 2016-06-30 2016-10-06 2017-02-22 2018-08-27 2020-10-14 latest",
        ),
        (
            "/openstack/latest/",
            "meta_data.json user_data password vendor_data.json network_data.json vendor_data2.json",
        ),
        ("/openstack/2012-08-10", "meta_data.json user_data"),
        ("/openstack/2013-04-04", "meta_data.json user_data password"),
        ("/latest", "meta-data/ user-data"),
        ("//latest/meta-data/public-keys/", "0=mine"),
        ("/latest/meta-data/public-keys/0/", "openssh-key"),
        ("/2009-04-04/meta-data/public-keys/0/openssh-key", "ssh-ed25519 AAAA me"),
        ("/latest/meta-data/local-ipv4", "10.0.0.7"),
        ("/latest/meta-data/hostname", "web-1"),
        ("/latest/meta-data/placement/availability-zone", "north"),
        ("/latest/meta-data/security-groups", "default"),
    ],
)
def test_lists_and_values(path: str, lines: str) -> None:
    expected = [lines] if path.endswith("openssh-key") else lines.split()
    assert text(path).split("\n") == expected


def test_tree_of_ec2_lists_its_branches_with_a_slash() -> None:
    names = text("/latest/meta-data").split("\n")
    assert names == sorted(names)
    assert {"ami-id", "block-device-mapping/", "placement/", "public-keys/", "instance-id"} <= set(names)
    assert "block-device-mapping/" not in text("/1.0/meta-data").split("\n")


def test_files_are_those_of_a_config_drive() -> None:
    for name, media_type in (
        ("meta_data.json", JSON),
        ("network_data.json", JSON),
        ("vendor_data2.json", JSON),
        ("user_data", BYTES),
    ):
        page = document(FILES, ("openstack", "latest", name))
        assert page is not None
        assert (page.content, page.media_type) == (FILES[f"openstack/latest/{name}"], media_type)
    user_data = document(FILES, ("latest", "user-data"))
    assert user_data is not None
    assert (user_data.content, user_data.media_type) == (USER_DATA, BYTES)
    meta_data = document(FILES, ("openstack", "2012-08-10", "meta_data.json"))
    assert meta_data is not None
    assert json.loads(meta_data.content)["meta"] == {"role": "web"}


@pytest.mark.parametrize(
    "path",
    [
        "/openstack/1999-01-01",
        "/openstack/latest/nothing",
        "/openstack/latest/meta_data.json/more",
        "/openstack/2012-08-10/vendor_data.json",
        "/openstack/latest/../latest/meta_data.json",
        "/openstack/content/0000",
        "/1999-01-01",
        "/latest/meta-data/nothing",
        "/latest/meta-data/hostname/more",
        "/latest/meta-data/public-keys/0/_name",
        "/latest/dynamic",
        "/latest/api/token",
        "/ec2/latest/meta-data.json",
    ],
)
def test_there_is_nothing_elsewhere(path: str) -> None:
    assert document(FILES, parts(path)) is None


def test_guest_without_user_data_has_no_such_path() -> None:
    files = made()
    assert document(files, ("latest", "user-data")) is None
    assert document(files, ("openstack", "latest", "user_data")) is None
    listed = document(files, ("openstack", "latest"))
    assert listed is not None
    assert b"user_data" not in listed.content
    value = document(files, ("latest", "meta-data", "local-ipv4"))
    assert value is not None
    assert value.content == b""


def test_password_has_a_path_since_2013() -> None:
    assert is_password(parts("/openstack/latest/password/"))
    assert is_password(parts("/openstack/2013-04-04/password"))
    for path in ("/openstack/2012-08-10/password", "/openstack/nonsense/password", "/latest/password", "/password"):
        assert not is_password(parts(path)), path
