"""Gives libvirt the secrets of a guest for as long as it needs them: while the guest starts, or until it has arrived."""

import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

import libvirt

from minova.errors import GuestSecretMissing, HypervisorError
from minova.objects.guests.guest_secrets import SecretKind
from minova.virt.driver.secrets import SecretSource
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.storage.disk_keys import mark_of
from minova.virt.libvirt.storage.disk_owner import SecretsInUse
from minova.virt.libvirt.xml.secrets_xml import kinds_of, secret_uuid, secret_xml

LOG = logging.getLogger(__name__)


class LibvirtSecrets:
    """libvirt keeps these secrets in its memory alone, and shows them to no client."""

    def __init__(
        self, in_use: Callable[[str], SecretsInUse], note: Callable[[str, SecretKind, str], None] = lambda *_: None
    ) -> None:
        """`in_use`: returns which secrets encrypt what an instance has here. `note`: records the mark of one."""
        self._in_use, self._note = in_use, note
        self._source: SecretSource | None = None

    def use(self, source: SecretSource) -> None:
        self._source = source

    @property
    def source(self) -> SecretSource:
        if self._source is None:
            raise HypervisorError("The driver has no source of secrets")
        return self._source

    def passphrases(
        self,
        instance_uuid: str,
        kinds: Collection[SecretKind],
        *,
        make: bool = False,
        marks: Mapping[str, str] = MappingProxyType({}),
    ) -> dict[SecretKind, str]:
        """Returns those of what is there. `make`: those of what is about to be made (see `SecretSource`). `marks`: of what is about to
        come from another host. Raises GuestSecretMissing if there is none.
        """
        if not kinds:
            return {}
        answer = self.source.secrets_of(instance_uuid, kinds, make=make)
        passphrases = dict(answer.passphrases)
        if answer.former and not make:
            in_use = SecretsInUse(marks={**marks}) if marks else self._in_use(instance_uuid)
            passphrases |= {
                kind: _passphrase_of_former(passphrases.get(kind), former, in_use, kind)
                for kind, former in answer.former.items()
            }
        if missing := {*kinds} - passphrases.keys():
            raise GuestSecretMissing(
                f"The database has no secret for the {' and '.join(sorted(missing))} of instance {instance_uuid}: it may be in a "
                "backup"
            )
        return passphrases

    def marks(self, instance_uuid: str, kinds: Collection[SecretKind]) -> dict[str, str]:
        """Returns the marks of the encrypted files, for another host. A file without a mark gets that of the secret which opens it here.
        Raises the errors of the source.
        """
        marks = dict(self._in_use(instance_uuid).marks)
        for kind in kinds:
            if kind not in marks:
                with suppress(GuestSecretMissing):  # nothing was made with one
                    marks[kind.value] = mark_of(self.passphrases(instance_uuid, [kind])[kind])
        return marks

    def are_used(self, instance_uuid: str, passphrases: Mapping[SecretKind, str]) -> bool:
        """Whether what is there was made with any of these."""
        marks = self._in_use(instance_uuid).marks
        return any(marks.get(kind) == mark_of(passphrase) for kind, passphrase in passphrases.items())

    @contextmanager
    def defined_for_start(self, connection: Any, instance_uuid: str, xml: str) -> Iterator[None]:
        """`xml`: of the domain that is started meanwhile."""
        kinds = kinds_of(xml)
        try:
            self.give(connection, instance_uuid, kinds)
            yield
        finally:
            self.take(connection, instance_uuid, kinds)

    def give(self, connection: Any, instance_uuid: str, kinds: Collection[SecretKind]) -> None:
        """Until `take`, or the end of libvirtd. Idempotent."""
        for kind, passphrase in self._found_or_made(connection, instance_uuid, kinds).items():
            secret = connection.secretDefineXML(secret_xml(instance_uuid, kind))
            secret.setValue(passphrase.encode())

    def _found_or_made(
        self, connection: Any, instance_uuid: str, kinds: Collection[SecretKind]
    ) -> dict[SecretKind, str]:
        """Returns the passphrases. That of a TPM is made if swtpm is about to make its first state."""
        try:
            return self.passphrases(instance_uuid, kinds)
        except GuestSecretMissing:
            if SecretKind.TPM not in kinds or tpm_files.has_state(connection, instance_uuid):
                raise
        others = self.passphrases(instance_uuid, [kind for kind in kinds if kind is not SecretKind.TPM])
        new_passphrase = self.passphrases(instance_uuid, [SecretKind.TPM], make=True)
        self._note(instance_uuid, SecretKind.TPM, mark_of(new_passphrase[SecretKind.TPM]))
        return others | new_passphrase

    def take(self, connection: Any, instance_uuid: str, kinds: Collection[SecretKind] = tuple(SecretKind)) -> None:
        """Idempotent. Errors are logged: what the guest needed the secrets for has succeeded or failed without them, and they end
        with libvirtd. A host whose libvirt has no secret driver cannot have any.
        """
        for kind in kinds:
            try:
                connection.secretLookupByUUIDString(secret_uuid(instance_uuid, kind)).undefine()
            except libvirt.libvirtError as error:
                if error.get_error_code() not in {libvirt.VIR_ERR_NO_SECRET, libvirt.VIR_ERR_NO_SUPPORT}:
                    LOG.warning("libvirt may keep the %s secret of instance %s: %s", kind, instance_uuid, error)


def _passphrase_of_former(present: str | None, former: Sequence[str], in_use: SecretsInUse, kind: SecretKind) -> str:
    """Returns the passphrase of what a rebuild has left. Without a mark it is the last former one, if nothing was replaced yet."""
    passphrases = [passphrase for passphrase in (present, *former) if passphrase is not None]
    marked = [passphrase for passphrase in passphrases if mark_of(passphrase) == in_use.marks.get(kind)]
    return (marked or (passphrases if in_use.replaced else list(former)))[0]
