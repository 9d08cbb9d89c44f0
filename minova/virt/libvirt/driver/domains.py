"""Domains, from their definition to their removal."""

import base64
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import libvirt
import msgspec

from minova import errors
from minova.hardware.guest.features import guest_features
from minova.objects.guests.diagnostics import GuestDiagnostics
from minova.objects.guests.guest_secrets import SecretKind
from minova.objects.hosts.compute_node import DomainView
from minova.objects.servers.chosen_hardware import ChosenHardware, without_choice
from minova.objects.servers.instance import Instance
from minova.objects.servers.states import PowerState
from minova.virt.driver.domains import NO_DATA, NO_ROW, GuestData, RowHost
from minova.virt.libvirt import diagnostics
from minova.virt.libvirt.driver.definitions import Definition, DomainDefinitions
from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.guest_state import power
from minova.virt.libvirt.host import lookup
from minova.virt.libvirt.migration import arrivals, libvirt_files
from minova.virt.libvirt.migration.libvirt_files import VARIABLES
from minova.virt.libvirt.storage.disk_images import BaseImage
from minova.virt.libvirt.storage.disks import WriteDrive
from minova.virt.libvirt.xml.guest import properties_of
from minova.virt.libvirt.xml.mark import domain_name
from minova.virt.libvirt.xml.secrets_xml import tpm_version_of
from minova.virt.libvirt.xml.system_xml import chosen_of, has_variables

LOG = logging.getLogger(__name__)


class LibvirtDomains(DomainDefinitions):
    def domains(self) -> tuple[DomainView, ...]:
        with self._host.connection("Listing domains") as connection:
            return self._views(connection)

    def chosen_hardware(self, instance_uuids: Sequence[str]) -> dict[str, ChosenHardware]:
        hardware: dict[str, ChosenHardware] = {}
        for uuid in instance_uuids:
            chosen = None if uuid in self._without_machine else self._chosen_hardware(uuid)
            if chosen is not None:
                hardware[uuid] = chosen
        return hardware

    def _chosen_hardware(self, instance_uuid: str) -> ChosenHardware | None:
        with self._host.connection("Reading the hardware", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None or self._our_mark(domain) is None:
                return None
            # Before the look: a definition that is made during the look removes it again.
            self._without_machine.add(instance_uuid)
            try:
                chosen = chosen_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            except libvirt.libvirtError:
                self._without_machine.discard(instance_uuid)
                raise
            if chosen is not None:
                self._without_machine.discard(instance_uuid)
            return chosen

    def watch(self, changed: Callable[[str, PowerState], None]) -> None:
        def lifecycle(domain: Any, event: int, detail: int) -> None:
            state = power.state_after(event, detail)
            if state is not None and domain.name() == domain_name(domain.UUIDString()):
                changed(domain.UUIDString(), state)

        def reconnected() -> None:
            # Make up for events that were missed while there was no listener.
            try:
                for view in self.domains():
                    if view.ours:
                        changed(view.uuid, PowerState(view.power_state))
            except errors.MinovaError as error:
                LOG.warning("States of domains are not known yet: %s", error)

        self._host.watch(lifecycle, reconnected)

    def diagnostics(self, instance_uuid: str) -> GuestDiagnostics:
        with self._host.connection("Diagnostics", domain_name(instance_uuid)) as connection:
            return diagnostics.diagnostics(self._own(connection, instance_uuid), self._conf.libvirt.virt_type)

    def needs_image(self) -> bool:
        return self._real

    def prepare(
        self,
        instance: Instance,
        node: str,
        attempt: int,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        *,
        with_disks: bool = True,
        copies_image: bool = False,
    ) -> None:
        name = domain_name(instance.uuid)
        # Disks that are there have the formats in which they were made.
        drive_is_cd = self._drives.is_cd if with_disks else None
        disks = self._disks.plan(instance, drive_is_cd=drive_is_cd) if self._real else ()
        xml = self._xml_of(instance, node, attempt, disks)
        base = BaseImage.of(instance, image_path) if self._real and with_disks else None
        with self._host.connection("Preparing", name) as connection:
            domain = lookup(connection, instance.uuid)
            if domain is not None:
                mark = self._our_mark(domain)
                if mark is None:
                    raise errors.HypervisorError(f"Domain {domain.name()} has the UUID of {name}, but is not ours")
                if domain.isActive() and mark.attempt == attempt:
                    return
                if mark.attempt > attempt:
                    raise errors.GuestIsNewer(f"Domain {domain.name()} is of attempt {mark.attempt}, not {attempt}")
                self._destroy(domain, instance.uuid, NO_ROW if with_disks else None)
            self._define(connection, Definition(instance, xml, node, attempt, disks))
            self._plug(connection, instance)
        if base is not None:
            self._make_disks(instance, base, attempt, data, copies_image=copies_image)
            self._restore_tpm(instance)

    def _restore_tpm(self, instance: Instance) -> None:
        """Give the guest of a server that was shelved the state that its TPM had."""
        with self._host.connection("Restoring the TPM", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            version = tpm_version_of(domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE))
            if version is None:
                return
            tpm_state = self._secrets.source.secrets_of(instance.uuid, [SecretKind.TPM]).tpm_state
            if tpm_state is None:
                return
            if tpm_state.version != version:
                raise errors.ImageUnacceptable(
                    f"Instance {instance.uuid} was shelved with a TPM {tpm_state.version}, and its image or flavor now asks for {version}"
                )
            if tpm_state.mark:
                self._disks.note_secret(instance.uuid, SecretKind.TPM, tpm_state.mark)
            tpm_files.write(connection, instance.uuid, version, base64.b64decode(tpm_state.state))

    def rebuild(
        self,
        instance: Instance,
        image_path: Path | None,
        data: GuestData = NO_DATA,
        replaces: Callable[[], None] = lambda: None,
    ) -> None:
        instance = msgspec.structs.replace(instance, system_metadata=without_choice(instance.system_metadata))
        if not self._real:
            replaces()
            self._define_anew(instance, (), drop_memory=True, chooses=True)
            return
        self._require_disks(instance)
        base = BaseImage.of(instance, image_path)
        with self._host.connection("Rebuilding", domain_name(instance.uuid)) as connection:
            definition = self._end(connection, instance, self._disks.plan(instance), drop_memory=True, chooses=True)

        def go() -> None:
            # With the existing disks: the new ones may have other formats, and may never be made. Not before the new guest is sure to
            # come: what is kept of the former one, such as its TPM, is found by its domain.
            with self._host.connection("Defining anew", domain_name(instance.uuid)) as connection:
                self._define(connection, definition)
            replaces()
            self._disks.remove_rescue(instance.uuid)

        self._make_disks(instance, base, definition.attempt, data, replaces=go)
        self._define_anew(instance, self._disks.plan(instance), drop_memory=True, chooses=True)

    def _make_disks(
        self,
        instance: Instance,
        base: BaseImage,
        attempt: int,
        data: GuestData,
        *,
        copies_image: bool = False,
        replaces: Callable[[], None] = lambda: None,
    ) -> None:
        """Make the disks of a defined domain anew, and with them its firmware variables and the state of its TPM: firmware and swtpm
        make those of the new guest at its first start. They go before the former disks do, so that new disks never boot with them.

        Checks and steps that may fail come before that: after a failure the former guest still has its disks, its TPM and their
        secrets. `replaces`: see `rebuild`.
        """
        self._disks.require_room(instance, base, copies_image=copies_image)
        passphrases = self._make_secrets(instance)
        if self._secrets.are_used(instance.uuid, passphrases):
            replaces()  # an earlier try of the same rebuild has made its disks

        def go() -> None:
            replaces()
            self._remove_firmware_state(instance)

        self._disks.make(
            instance,
            base,
            self._ready().host,
            attempt,
            self._write_drive(instance, data),
            passphrases,
            go,
            copies_image=copies_image,
        )

    def _remove_firmware_state(self, instance: Instance) -> None:
        arrivals.forget(self._disks.folder(instance.uuid))
        with self._host.connection("Removing the firmware variables", domain_name(instance.uuid)) as connection:
            domain = self._own(connection, instance.uuid)
            xml = domain.XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
            if has_variables(xml):
                libvirt_files.remove(connection, VARIABLES, domain.name())
            if tpm_version_of(xml) is not None or tpm_files.may_be_there(instance.uuid):
                tpm_files.remove(connection, instance.uuid)

    def _make_secrets(self, instance: Instance) -> dict[SecretKind, str]:
        """Returns the passphrases of the new disks and of the new TPM."""
        features = guest_features(instance.flavor, properties_of(instance))
        kinds = [SecretKind.DISKS] if self._disks.encrypts(instance) else []
        kinds += [SecretKind.TPM] if features.tpm_version is not None else []
        return self._secrets.passphrases(instance.uuid, kinds, make=True)

    def latest_attempt(self, instance_uuid: str) -> int | None:
        with self._host.connection("Reading the attempt", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            mark = None if domain is None else self._our_mark(domain)
        of_domain = None if mark is None else mark.attempt
        of_disks = self._disks.attempt_of(instance_uuid, self._ready().host) if self._real else None
        return max((attempt for attempt in (of_domain, of_disks) if attempt is not None), default=None)

    def destroy(self, instance_uuid: str, row: RowHost = NO_ROW) -> None:
        with self._host.connection("Destroying", domain_name(instance_uuid)) as connection:
            domain = lookup(connection, instance_uuid)
            if domain is None:
                self._remove_disks(instance_uuid, row)
                if tpm_files.may_be_there(instance_uuid):
                    tpm_files.remove(connection, instance_uuid)
                self._release_ports(instance_uuid)
            elif self._our_mark(domain) is None:
                LOG.warning("Domain %s has the UUID of instance %s, but is not ours", domain.name(), instance_uuid)
            else:
                self._destroy(domain, instance_uuid, row)
                self._release_ports(instance_uuid)

    def _release_ports(self, instance_uuid: str) -> None:
        if self._serial_ports is not None:
            self._serial_ports.release(instance_uuid)

    def _write_drive(self, instance: Instance, data: GuestData) -> WriteDrive:
        return WriteDrive(partial(self._drives.write, instance=instance, data=data), self._drives.is_cd)
