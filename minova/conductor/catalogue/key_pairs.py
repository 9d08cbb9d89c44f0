"""Key pairs of users: stored and removed. A server keeps the text of its key when the key pair is removed."""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from minova import errors
from minova.conductor.quotas import Quotas
from minova.conductor.tasks.worker import TaskWorker
from minova.context import RequestContext
from minova.contracts.conductor.api.catalogue import KeyPairsApi
from minova.db.catalogue import key_pairs
from minova.objects.catalogue.key_pair import KeyPair
from minova.races import Race, repeat_lost

COUNTED_AS = "key_pairs"
# Another request of the user came first; the next try sees its row.
ADDED = Race(
    IntegrityError,
    given_up=lambda _: errors.ServiceUnavailable(
        "Too many requests change the key pairs of this user. Please try again."
    ),
)


class KeyPairs(KeyPairsApi):
    def __init__(self, worker: TaskWorker, quotas: Quotas) -> None:
        self._worker = worker
        self._quotas = quotas

    def create_key_pair(self, ctx: RequestContext, key_pair: KeyPair) -> KeyPair:
        """The limit is the project's."""

        def work(session: Session) -> KeyPair:
            if key_pairs.find(session, key_pair.user_id, key_pair.name) is not None:
                raise errors.Conflict(f"Key pair '{key_pair.name}' already exists.")
            limit = self._quotas.limits(session, ctx.project_id)[COUNTED_AS]
            stored = key_pairs.add(session, key_pair, limit, self._worker.at())
            if stored is None:
                raise errors.Forbidden("Quota exceeded, too many key pairs.")
            return stored

        return repeat_lost(lambda: self._worker.run(work), [ADDED])

    def delete_key_pair(self, ctx: RequestContext, user_id: str, name: str) -> None:
        if not self._worker.run(lambda session: key_pairs.remove(session, user_id, name)):
            raise errors.NotFound(f"Keypair {name} not found for user {user_id}")
