"""The documents at the paths of the metadata service, made from the files of a config drive. Pure.

/openstack/VERSION/meta_data.json, user_data, password, vendor_data.json, network_data.json, vendor_data2.json
/VERSION/meta-data/...    a tree: each branch lists its names, each leaf is a value
/VERSION/user-data
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minova.codecs import parse_json
from minova.virt.config_drive.contents import EC2_VERSIONS, GRIZZLY, LATEST, OPENSTACK_VERSIONS

PASSWORD = "password"
TEXT, JSON, BYTES = "text/plain; charset=UTF-8", "application/json", "application/octet-stream"
# In Nova's order.
_LISTED = ("meta_data.json", "user_data", PASSWORD, "vendor_data.json", "network_data.json", "vendor_data2.json")
_OPENSTACK, _EC2 = (*OPENSTACK_VERSIONS, LATEST), (*EC2_VERSIONS, LATEST)


class Document(msgspec.Struct, frozen=True, kw_only=True):
    content: bytes
    media_type: str = TEXT


def parts(path: str) -> tuple[str, ...]:
    """Returns the parts of a path, whatever the number of slashes between them."""
    return tuple(part for part in path.split("/") if part)


def is_password(path: Sequence[str]) -> bool:
    """Whether a password is read and stored at this path."""
    return len(path) == 3 and path[0] == "openstack" and path[2] == PASSWORD and _has_password(path[1])


def document(files: Mapping[str, bytes], path: Sequence[str]) -> Document | None:
    """Returns the document at this path; None if there is none. Passwords are not in the files."""
    match path:
        case []:
            return _list(_EC2)
        case ["openstack"]:
            return _list(_OPENSTACK)
        case ["openstack", version] if version in _OPENSTACK:
            return _list([name for name in _LISTED if _has(files, version, name)])
        case ["openstack", version, name] if version in _OPENSTACK:
            content = files.get(f"openstack/{version}/{name}")
            return None if content is None else Document(content=content, media_type=JSON if _is_json(name) else BYTES)
        case [version, *rest] if version in _EC2:
            return _ec2(files, version, rest)
    return None


def _ec2(files: Mapping[str, bytes], version: str, path: Sequence[str]) -> Document | None:
    tree: dict[str, Any] = {"meta-data": parse_json(files[f"ec2/{version}/meta-data.json"])}
    user_data = files.get(f"ec2/{version}/user-data")
    if user_data is not None:
        tree["user-data"] = user_data
    node: Any = tree
    for part in path:
        if not isinstance(node, dict) or part not in node or part == "_name":
            return None
        node = node[part]
    if isinstance(node, bytes):
        return Document(content=node, media_type=BYTES)
    if isinstance(node, dict):
        return _list([_entry_name(name, value) for name, value in sorted(node.items()) if name != "_name"])
    if isinstance(node, list):
        return _list(node)
    return Document(content=b"" if node is None else str(node).encode())


def _entry_name(name: str, value: Any) -> str:
    """Returns the name of an entry in a list. A branch ends in a slash, unless it has a name of its own; a key, for
    example, is 0=NAME.
    """
    if not isinstance(value, dict):
        return name
    return str(value.get("_name", f"{name}/"))


def _list(names: Sequence[str]) -> Document:
    return Document(content="\n".join(names).encode())


def _has(files: Mapping[str, bytes], version: str, name: str) -> bool:
    return _has_password(version) if name == PASSWORD else f"openstack/{version}/{name}" in files


def _has_password(version: str) -> bool:
    return version == LATEST or (version in OPENSTACK_VERSIONS and version >= GRIZZLY)


def _is_json(name: str) -> bool:
    return name.endswith(".json")
