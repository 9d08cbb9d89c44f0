"""The caller and the request ID. Every message carries them, and every log line shows them."""

import uuid
from typing import Annotated

import msgspec

# Checked when a message is read, because these IDs stand in log lines and must not break them. The ID of a request is
# ASCII, as `new_request_id` makes it; the other IDs come from people.
RequestId = Annotated[str, msgspec.Meta(pattern=r"\A[A-Za-z0-9._:-]{1,64}\Z")]
OneLine = Annotated[str, msgspec.Meta(pattern=r"\A[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z", max_length=255)]


class RequestContext(msgspec.Struct, frozen=True, kw_only=True):
    """`cloud`: the identity of the sender's cloud; None if the sender does not know it, or is of a release before 0.2.0.

    `message`: the ID of this message, if its call must not be executed twice (`contracts/once.py`); otherwise None.

    `process`: the compute process that sends the message (`HostIdentity.process`); None for every other sender.

    `sender`: the broker user that sent the message, as validated by the broker; None if the broker has validated none.
    It is never taken from the message itself. No service derives rights from the other fields, because the API has
    already decided.
    """

    request_id: RequestId
    user_id: OneLine = ""
    project_id: OneLine = ""
    is_admin: bool = False
    cloud: OneLine | None = None
    process: OneLine | None = None
    message: Annotated[str, msgspec.Meta(pattern=r"\A[0-9a-f-]{36}\Z")] | None = None
    sender: OneLine | None = None


def new_request_id() -> str:
    """Returns an ID in OpenStack's form: `req-` and a UUID."""
    return f"req-{uuid.uuid4()}"


def service_context(request_id: str | None = None) -> RequestContext:
    """Returns the context for work that a service starts on its own, such as periodic tasks."""
    return RequestContext(request_id=request_id or new_request_id(), is_admin=True)
