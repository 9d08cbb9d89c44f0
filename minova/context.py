"""The caller and the request ID: sent with every message and written into every log line."""

import uuid

import msgspec


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """`process`: the compute process that sends the message (`HostIdentity.process`); None from every other sender."""

    request_id: str
    user_id: str = ""
    project_id: str = ""
    is_admin: bool = False
    process: str | None = None


def new_request_id() -> str:
    """OpenStack's form: `req-` and a UUID."""
    return f"req-{uuid.uuid4()}"


def service_context(request_id: str | None = None) -> RequestContext:
    """For work that a service starts on its own, such as periodic tasks."""
    return RequestContext(request_id=request_id or new_request_id(), is_admin=True)
