"""`/os-keypairs`: the public keys that servers of a user get. A key pair belongs to a user, not to a project."""

import re
from typing import Any, Literal

import msgspec

from minova import errors
from minova.api.compute.collaborators import ComputeApiCollaborators
from minova.api.compute.keypairs import public_keys
from minova.api.http import links, times
from minova.api.http.call import Call
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.http.microversions import History, added, changed, required
from minova.api.http.structs import Int64, page_size
from minova.api.policies.enforcer import Target
from minova.db.catalogue import key_pairs
from minova.objects.catalogue.key_pair import SSH, KeyPair

_SAFE = re.compile(r"[A-Za-z0-9_\- ]+")
_SAFE_SINCE_2_92 = re.compile(r"[A-Za-z0-9_\-@. ]+")
_LONGEST = 255


class NewKeyPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """If `public_key` is missing, a key pair is generated."""

    name: str
    public_key: str | msgspec.UnsetType = msgspec.UNSET
    type: Literal["ssh", "x509"] = "ssh"
    user_id: str | None = None


class CreateKeyPair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    keypair: NewKeyPair


class KeypairQuery(msgspec.Struct, frozen=True, kw_only=True):
    """`user_id`: another user; for administrators."""

    user_id: str | None = None


class KeypairsQuery(KeypairQuery, frozen=True, kw_only=True):
    """`marker`: the name of the last item of the page before."""

    limit: Int64 | None = None
    marker: str | None = None


class KeyPairBrief(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    public_key: str
    fingerprint: str
    type: str


class CreatedKeyPair(KeyPairBrief, frozen=True, kw_only=True):
    """`private_key`: of a generated key pair; only this answer has it."""

    user_id: str
    private_key: str | msgspec.UnsetType = msgspec.UNSET


class KeyPairView(KeyPairBrief, frozen=True, kw_only=True):
    """`deleted`, `deleted_at` and `updated_at` are there for compatibility with Nova."""

    id: int
    user_id: str
    created_at: str | None
    updated_at: str | None = None
    deleted: bool = False
    deleted_at: str | None = None


BODY_HISTORY = History(
    NewKeyPair,
    added("2.2", "type"),
    added("2.10", "user_id"),
    required("2.92", "public_key", note="none is generated"),
    changed("2.92", "name", note="may have @ and ."),
)
ASKED_OF_ONE = History(KeypairQuery, added("2.10", "user_id"), strict_since=(2, 75))
QUERY_HISTORY = History(KeypairsQuery, added("2.10", "user_id"), added("2.35", "limit", "marker"), strict_since=(2, 75))
ANSWER_HISTORY = History(KeyPairBrief, added("2.2", "type"))
# Until 2.1 the statuses are 200 and 202.
CREATED_SINCE = ((2, 2), 201)
DELETED_SINCE = ((2, 2), 204)
# More key pairs than a user has. Versions without pages list all of them.
_ALL = 1_000_000


class KeypairItem(msgspec.Struct, frozen=True, kw_only=True):
    """In a list, each key pair is wrapped in an object of its own."""

    keypair: KeyPairBrief


def list_key_pairs(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    query: KeypairsQuery = call.query
    user_id = _user(call, query.user_id)
    size = page_size(query.limit, api.conf.api.max_limit) if call.has(QUERY_HISTORY, "limit") else _ALL
    with api.db.read() as session:
        try:
            page = key_pairs.page(session, user_id, query.marker, size)
        except LookupError:
            raise errors.BadRequest(f"Marker {query.marker} could not be found.") from None
    answer: dict[str, Any] = {
        "keypairs": [KeypairItem(keypair=call.shown(ANSWER_HISTORY, KeyPairBrief(**_brief(each)))) for each in page]
    }
    if links.is_full(page, size):
        answer["keypairs_links"] = links.next_page(call, page[-1].name)
    return answer


def show(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    user_id, name = _user(call, call.query.user_id), call.path["keypair_name"]
    with api.db.read() as session:
        key_pair = key_pairs.find(session, user_id, name) if len(name) <= _LONGEST else None
    if key_pair is None:
        raise _unknown(name, user_id)
    view = KeyPairView(
        **_brief(key_pair), id=key_pair.id, user_id=user_id, created_at=times.microseconds(key_pair.created_at)
    )
    return {"keypair": call.shown(ANSWER_HISTORY, view)}


def create(api: ComputeApiCollaborators, call: Call) -> dict[str, Any]:
    """Returns the private key of a generated key pair in the answer. It is neither stored nor sent to
    another service.
    """
    body: NewKeyPair = call.body.keypair
    user_id = _user(call, body.user_id)
    name = _checked_name(body.name, _SAFE_SINCE_2_92 if call.since("2.92") else _SAFE)
    private_key: str | msgspec.UnsetType = msgspec.UNSET
    if isinstance(body.public_key, msgspec.UnsetType):
        _require_free(api, user_id, name)  # before generating a key, which costs CPU time
        private_key, public_key = public_keys.generate(body.type, user_id)
    else:
        public_key = body.public_key
    new_key_pair = KeyPair(
        name=name,
        user_id=user_id,
        type=body.type,
        public_key=public_key,
        fingerprint=public_keys.fingerprint(body.type, public_key.strip() if body.type == SSH else public_key),
    )
    key_pair = api.conductor.create_key_pair(call.ctx, key_pair=new_key_pair)
    created = CreatedKeyPair(**_brief(key_pair), user_id=user_id, private_key=private_key)
    return {"keypair": call.shown(ANSWER_HISTORY, created)}


def delete(api: ComputeApiCollaborators, call: Call) -> None:
    user_id, name = _user(call, call.query.user_id), call.path["keypair_name"]
    if len(name) > _LONGEST:
        raise _unknown(name, user_id)
    api.conductor.delete_key_pair(call.ctx, user_id=user_id, name=name)


def _user(call: Call, requested_user_id: str | None) -> str:
    """Returns the user of the key pairs. Raises Forbidden if the policy of the route does not permit that user."""
    user_id = requested_user_id or call.ctx.user_id
    call.require_for(Target(project_id=call.ctx.project_id, user_id=user_id))
    return user_id


def _checked_name(name: str, safe: re.Pattern[str]) -> str:
    if not 1 <= len(name) <= _LONGEST:
        raise public_keys.invalid(f"Keypair name must be string and between 1 and {_LONGEST} characters long")
    if not safe.fullmatch(name):
        raise public_keys.invalid("Keypair name contains unsafe characters")
    if name != name.strip():
        raise public_keys.invalid("Keypair name begins or ends with a space")
    return name


def _require_free(api: ComputeApiCollaborators, user_id: str, name: str) -> None:
    with api.db.read() as session:
        if key_pairs.find(session, user_id, name) is not None:
            raise errors.Conflict(f"Key pair '{name}' already exists.")


def _unknown(name: str, user_id: str) -> errors.NotFound:
    return errors.NotFound(f"Keypair {name[:_LONGEST]} not found for user {user_id}")


def _brief(key_pair: KeyPair) -> dict[str, Any]:
    return {name: getattr(key_pair, name) for name in KeyPairBrief.__struct_fields__}


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/os-keypairs",
        rule="os_compute_api:os-keypairs:index",
        handler=list_key_pairs,
        answer={"keypairs": list[KeypairItem], "keypairs_links?": list[Link]},
        query=KeypairsQuery,
    ),
    Route(
        method="POST",
        path="/v2.1/os-keypairs",
        rule="os_compute_api:os-keypairs:create",
        handler=create,
        answer={"keypair": CreatedKeyPair},
        body=CreateKeyPair,
        statuses=(CREATED_SINCE,),
    ),
    Route(
        method="GET",
        path="/v2.1/os-keypairs/{keypair_name}",
        rule="os_compute_api:os-keypairs:show",
        handler=show,
        answer={"keypair": KeyPairView},
        query=KeypairQuery,
    ),
    Route(
        method="DELETE",
        path="/v2.1/os-keypairs/{keypair_name}",
        rule="os_compute_api:os-keypairs:delete",
        handler=delete,
        query=KeypairQuery,
        status=202,
        statuses=(DELETED_SINCE,),
    ),
)
