"""What libvirt keeps of a guest elsewhere, and a move has brought beside its disks: UEFI variables, the state of the TPM, saved memory.

    INSTANCES/UUID/NAME.ATTEMPT  --give-->  libvirt's own folders      before the first start of the guest on this host

The start of a moved guest may fail before they are given. So whatever starts it later gives them first.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libvirt

from minova.virt.libvirt.guest_files import tpm_files
from minova.virt.libvirt.guest_state.secrets import LibvirtSecrets
from minova.virt.libvirt.migration import libvirt_files
from minova.virt.libvirt.migration.libvirt_files import MEMORY, VARIABLES
from minova.virt.libvirt.xml.migration_xml import migrated_xml
from minova.virt.libvirt.xml.secrets_xml import tpm_version_of


def memory_file(folder: Path, attempt: int) -> Path:
    """Returns the path of the saved memory that this attempt brings."""
    return folder / libvirt_files.arriving(MEMORY.beside, attempt)


def are_there(folder: Path, attempt: int) -> bool:
    return any(path.exists() for path in _files(folder, attempt))


def _files(folder: Path, attempt: int) -> Iterator[Path]:
    for name in libvirt_files.BESIDE:
        yield folder / libvirt_files.arriving(name, attempt)


def forget(folder: Path) -> None:
    """Remove what has come for a guest that is made anew, in any attempt. Idempotent."""
    for name in libvirt_files.BESIDE:
        for path in folder.glob(f"{name}.*"):
            path.unlink(missing_ok=True)


def give(connection: Any, domain: Any, xml: str, folder: Path, attempt: int, secrets: LibvirtSecrets) -> None:
    """Give libvirt what has come for this domain, which is defined by this XML. Idempotent. A guest that stands still with the memory
    that an earlier process has restored is saved again.
    """
    memory = memory_file(folder, attempt)
    if domain.isActive():
        if memory.exists():
            _save(domain, memory)
        return
    variables = folder / libvirt_files.arriving(VARIABLES.beside, attempt)
    if variables.exists():
        libvirt_files.write(connection, VARIABLES, domain.name(), variables)
        variables.unlink()
    for version, name in tpm_files.BESIDE.items():
        state = folder / libvirt_files.arriving(name, attempt)
        if state.exists():
            if tpm_version_of(xml) == version:
                tpm_files.write(connection, domain.UUIDString(), version, state.read_bytes())
            state.unlink()
    if memory.exists():
        if not domain.hasManagedSaveImage():
            # Only libvirt can make it the memory from which the next start goes on. The guest does not run meanwhile.
            moved = memory_xml(connection, memory, xml)
            with secrets.defined_for_start(connection, domain.UUIDString(), xml):
                connection.restoreFlags(str(memory), moved, libvirt.VIR_DOMAIN_SAVE_PAUSED)
        _save(domain, memory)
    elif domain.hasManagedSaveImage():
        saved = domain.managedSaveGetXMLDesc(libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
        domain.managedSaveDefineXML(migrated_xml(saved, xml), 0)


def _save(domain: Any, memory: Path) -> None:
    if domain.isActive():
        domain.managedSave(libvirt.VIR_DOMAIN_SAVE_RUNNING)
    memory.unlink()


def memory_xml(connection: Any, memory: Path, xml: str) -> str:
    """Returns the domain with which to restore the memory. Raises as `migrated_xml`."""
    saved = connection.saveImageGetXMLDesc(str(memory), libvirt.VIR_DOMAIN_SAVE_IMAGE_XML_SECURE)
    return migrated_xml(saved, xml)
