"""The caller and the request ID: sent with every message and written into every log line."""

import uuid
from typing import Annotated

import msgspec

# Checked when a message is read: these stand in log lines, which must stay lines. An id of a request is ASCII, as `new_request_id`
# makes it; the others come from people.
RequestId = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._:-]{1,64}\Z")]
OneLine = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=255)]


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """`process`: the compute process that sends the message (`HostIdentity.process`); None from every other sender.

    `sender`: the broker's user that sent the message, as the broker has validated it; None where it has validated none. It is
    never taken from the message itself. No service derives rights from the other fields: the API has decided.
    """

    request_id: RequestId
    user_id: OneLine = ""
    project_id: OneLine = ""
    is_admin: bool = False
    process: OneLine | None = None
    sender: OneLine | None = None


def new_request_id() -> str:
    """OpenStack's form: `req-` and a UUID."""
    return f"req-{uuid.uuid4()}"


def service_context(request_id: str | None = None) -> RequestContext:
    """For work that a service starts on its own, such as periodic tasks."""
    return RequestContext(request_id=request_id or new_request_id(), is_admin=True)
