"""A guest's serial console, typed into: what its shell answers is in the console log."""

import re
import secrets
from collections.abc import Callable

import libvirt

from tests.waiting import wait_for


class GuestConsole:
    """`log` reads all that the guest has printed."""

    def __init__(self, uri: str, instance_uuid: str, log: Callable[[], str]) -> None:
        self._uri = uri
        self._uuid = instance_uuid
        self._log = log
        # The log has answers to earlier consoles, too.
        self._name = secrets.token_hex(3)
        self._asked = 0

    def ask(self, command: str, within: float = 60) -> str:
        """What the command prints, one line."""
        self._asked += 1
        # What is typed is echoed, too, and has quotes in it.
        typed = f"echo ANSW'ER-{self._name}-{self._asked}='$({command})'=END'"
        answer = re.compile(rf"^ANSWER-{self._name}-{self._asked}=(.*?)=END", re.MULTILINE)
        connection = libvirt.open(self._uri)
        try:
            stream = connection.newStream()
            connection.lookupByUUIDString(self._uuid).openConsole(None, stream, libvirt.VIR_DOMAIN_CONSOLE_FORCE)
            stream.send(f"\n{typed}\n".encode())
            # libvirt drops what it has not written when the stream ends.
            answers: list[str] = wait_for(f"an answer to {command}", lambda: answer.findall(self._log()), within)
            stream.abort()
        finally:
            connection.close()
        return answers[0].strip()
