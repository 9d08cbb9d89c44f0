"""Files of a network: its record, and those that its dnsmasq reads."""

from pathlib import Path

import msgspec

from minova.codecs import Decoder
from minova.virt.namespaces.network import NetworkRecord

_RECORD = Decoder(NetworkRecord)
_NAME = "network.json"


def read_record(folder: Path) -> NetworkRecord | None:
    """Returns None if there is no record, or none that this release can read: then the network is made anew."""
    try:
        return _RECORD.from_json((folder / _NAME).read_bytes())
    except (OSError, msgspec.DecodeError):
        return None


def write_record(folder: Path, record: NetworkRecord) -> None:
    write_files(folder, {_NAME: msgspec.json.encode(record).decode()})


def write_files(folder: Path, files: dict[str, str]) -> bool:
    """Returns whether a file has changed. All may read them: dnsmasq has a user of its own."""
    make_folder(folder)
    changed = False
    for name, text in files.items():
        path = folder / name
        if path.exists() and path.read_text() == text:
            continue
        half = path.with_name(f"{name}.part")
        half.write_text(text)
        half.chmod(0o644)
        half.rename(path)
        changed = True
    return changed


def make_folder(path: Path) -> None:
    """Make a folder that all may read, whatever the umask of the process is: dnsmasq has a user of its own."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        path.chmod(0o755)
