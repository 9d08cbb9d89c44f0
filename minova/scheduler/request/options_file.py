"""The JSON options file of filters, re-read when it changes."""

import json
import logging
import threading
from pathlib import Path
from typing import Any

from minova import errors

LOG = logging.getLogger(__name__)
OPTION = "[scheduler] scheduler_json_config_location"

# Identifies a state of the file; None: there is no file.
Seen = tuple[int, int, int] | None


class OptionsFile:
    """`path` empty: there is no such file. Raises InvalidConfiguration if the file is not a JSON
    object at the start.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._lock = threading.Lock()
        self._seen: Seen = None
        self._content: dict[str, Any] = {}
        if self._path is not None:
            self._seen, self._content = self._read(self._path)

    def content(self) -> dict[str, Any]:
        """Returns the current content, {} if the file is missing. If it cannot be read, logs that once and returns the
        last valid content.
        """
        if self._path is None:
            return self._content
        with self._lock:
            if _state(self._path) != self._seen:
                self._reread(self._path)
            return self._content

    def _reread(self, path: Path) -> None:
        self._seen = _state(path)
        try:
            self._seen, self._content = self._read(path)
        except errors.InvalidConfiguration as error:
            LOG.error("%s; its previous content stays in force", error)
        else:
            LOG.info("%s: read %s again", OPTION, path)

    def _read(self, path: Path) -> tuple[Seen, dict[str, Any]]:
        file_state = _state(path)
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None, {}
        except OSError as error:
            raise errors.InvalidConfiguration(f"{OPTION}: {path}: {error.strerror}") from error
        except json.JSONDecodeError as error:
            place = f"line {error.lineno} column {error.colno}"
            raise errors.InvalidConfiguration(f"{OPTION}: {path}, {place}: {error.msg}") from error
        except ValueError as error:
            raise errors.InvalidConfiguration(f"{OPTION}: {path}: {error}") from error
        if not isinstance(content, dict):
            raise errors.InvalidConfiguration(
                f"{OPTION}: {path}: the top level must be an object, not {content!r:.100}"
            )
        return file_state, content


def _state(path: Path) -> Seen:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
