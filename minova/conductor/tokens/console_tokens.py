"""Tokens for consoles: each opens one console once, and soon expires."""

import hashlib
import secrets

from oslo_config import cfg
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.hosts.console_addresses import addresses_of
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.servers import ConsoleTokensApi
from minova.contracts.conductor.consoleproxies import ConsoleGrantsApi
from minova.db.servers import console_tokens, instances
from minova.objects.guests.console import ConsoleGrant, ConsoleType

# Length of a token in bytes: too long to guess while the token is valid.
TOKEN_BYTES = 32


class Consoles(ConsoleTokensApi, ConsoleGrantsApi):
    def __init__(self, conf: cfg.ConfigOpts, worker: TaskWorker) -> None:
        self._worker = worker
        self._seconds = float(conf.consoleauth.token_ttl)

    def create_console_token(self, ctx: RequestContext, instance_uuid: str, console_type: str) -> str:
        kind = _type(console_type)
        token = secrets.token_urlsafe(TOKEN_BYTES)

        def work(session: Session) -> None:
            location = instances.locations(session, [instance_uuid]).get(instance_uuid)
            if location is None:
                raise errors.NotFound(f"Instance {instance_uuid} could not be found.")
            if location.host is None:
                raise errors.Conflict(f"Instance {instance_uuid} is not ready")
            console_tokens.add(session, _hash(token), instance_uuid, kind, self._worker.now(), self._seconds)

        self._worker.run(work)
        return token

    def use_console_token(self, ctx: RequestContext, token: str) -> ConsoleGrant:
        """The token is used up even if the answer does not arrive."""

        def work(session: Session) -> ConsoleGrant | None:
            opened = console_tokens.use(session, _hash(token), self._worker.now())
            if opened is None:
                return None
            location = instances.locations(session, [opened.instance_uuid]).get(opened.instance_uuid)
            if location is None or location.host is None:
                return None
            return ConsoleGrant(
                instance_uuid=opened.instance_uuid,
                console_type=opened.console_type,
                host=location.host,
                addresses=addresses_of(session, location.host),
            )

        # `work` must not raise: an error in the transaction would make the token valid again.
        grant = self._worker.run(work)
        if grant is None:
            raise errors.Forbidden("The token of the console is not valid: it was used already, or it has expired.")
        return grant


def _type(name: str) -> ConsoleType:
    try:
        return ConsoleType(name)
    except ValueError:
        raise errors.BadRequest(f"Invalid console type {name[:32]}") from None


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
