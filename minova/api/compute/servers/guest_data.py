"""The data that a new server's guest can read: user data, files and the administrator's password; and the config drive
that holds them.
"""

import base64
import binascii
import secrets
from typing import Annotated, NamedTuple

import msgspec
from sqlalchemy.orm import Session

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.http.call import Call
from minova.db import quotas
from minova.db.catalogue import key_pairs
from minova.objects.actions.rebuild import InjectedFile
from minova.objects.catalogue.image import Image
from minova.objects.catalogue.key_pair import KeyPair
from minova.objects.catalogue.quota import UNLIMITED
from minova.objects.requests.build_extras import GuestFile

# Nova's limit, in characters of base64: 48 KiB of data.
LONGEST_USER_DATA = 65535
# Without letters and digits that look alike. A password has at least one character of each group.
_GROUPS = ("23456789", "ABCDEFGHJKLMNPQRSTUVWXYZ", "abcdefghijkmnopqrstuvwxyz")
PASSWORD_LENGTH = 12

UserData = Annotated[str, msgspec.Meta(max_length=LONGEST_USER_DATA)]


class RequestedGuestData(msgspec.Struct, frozen=True, kw_only=True):
    """The data in a request."""

    user_data: str | None
    config_drive: bool
    personality: tuple[InjectedFile, ...]
    admin_password: str | None


class GuestFields(NamedTuple):
    """Fields of CreateServers."""

    user_data: str | None
    config_drive: bool
    injected_files: tuple[GuestFile, ...]
    admin_password: str | None


def checked(api: ComputeApiCollaborators, call: Call, requested: RequestedGuestData, image: Image) -> GuestFields:
    """Validates the data, and generates a password if the request has none. Raises BadRequest or Forbidden if the data
    are invalid or too many.

    A guest finds files and password on a config drive alone, as in Nova. Without one they are checked, and have no
    effect; the answer has the password all the same.
    """
    if requested.user_data is not None:
        decoded("user_data", requested.user_data)
    mandatory = image.properties.get("img_config_drive") == "mandatory"
    drive = requested.config_drive or api.conf.force_config_drive or mandatory
    _check_files(api, call, requested.personality)
    password = requested.admin_password
    if password is None and drive and api.conf.api.enable_instance_password:
        password = new_password()
    files = tuple(GuestFile(path=file.path, contents=file.contents) for file in requested.personality if drive)
    return GuestFields(requested.user_data, drive, files, password)


def decoded(field: str, text: str) -> bytes:
    """Raises BadRequest if the text is not base64. Ignores white space, because encoders break lines; only ASCII's,
    because hosts know no other.
    """
    try:
        text.encode("ascii")
        return base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise errors.BadRequest(f"Invalid input for field server.{field}: it is not base64.") from None


def new_password() -> str:
    letters = [secrets.choice(group) for group in _GROUPS]
    letters += [secrets.choice("".join(_GROUPS)) for _ in range(PASSWORD_LENGTH - len(letters))]
    secrets.SystemRandom().shuffle(letters)
    return "".join(letters)


def _check_files(api: ComputeApiCollaborators, call: Call, files: tuple[InjectedFile, ...]) -> None:
    if not files:
        return
    with api.db.read() as session:
        limits = quotas.limits_of(session, api.conf, call.ctx.project_id)
    sizes = [len(decoded("personality.contents", file.contents)) for file in files]
    paths = [len(file.path.encode()) for file in files]
    if not all(paths):
        raise errors.BadRequest("Invalid input for field server.personality: a path is empty.")
    for text, resource, amount in (
        ("Personality file limit exceeded.", "injected_files", len(files)),
        ("Personality file path exceeds maximum {}.", "injected_file_path_bytes", max(paths)),
        ("Personality file content exceeds maximum {}.", "injected_file_content_bytes", max(sizes)),
    ):
        if UNLIMITED != limits[resource] < amount:
            raise errors.Forbidden(text.format(limits[resource]))


def key_pair_named(session: Session, call: Call, name: str) -> KeyPair:
    """Returns the user's key pair of that name. Raises BadRequest if there is none."""
    key_pair = key_pairs.find(session, call.ctx.user_id, name)
    if key_pair is None:
        raise errors.BadRequest("Invalid key_name provided.")
    return key_pair
