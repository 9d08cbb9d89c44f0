"""Extracts messages, reasons and page markers from the API's responses and from connection errors."""

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

SECRET = {"user_data", "adminPass", "password", "personality", "private_key"}


def next_marker(page: dict[str, Any], key: str) -> str | None:
    """Returns the marker of the next page, or None. Compute links pages with `servers_links` or `links`, Image with
    `next`; each link contains a marker.
    """
    href: str | None = page.get("next")
    for link in [*page.get(f"{key}_links", []), *page.get("links", [])]:
        if link.get("rel") == "next":
            href = link.get("href")
    if not href:
        return None
    markers = parse_qs(urlsplit(href).query).get("marker")
    return markers[0] if markers else None


def error_message(data: bytes) -> str:
    """Returns the text of an error in any of OpenStack's forms, else the first line of the body."""
    text = data.decode(errors="replace").strip()
    try:
        answer = json.loads(text)
    except ValueError:
        return "" if text.startswith("<") else text.partition("\n")[0][:300]
    if not isinstance(answer, dict):
        return ""
    inner = next((value for value in answer.values() if isinstance(value, dict) and "message" in value), answer)
    return str(inner.get("message") or inner.get("description") or inner.get("title") or "")


def innermost_reason(error: BaseException) -> str:
    """Returns the innermost cause in the system's words: `Connection refused`, not urllib3's object names."""
    inner: BaseException = error
    while (deeper := getattr(inner, "reason", None) or inner.__cause__ or _last_cause(inner)) is not None:
        if not isinstance(deeper, BaseException):
            break
        inner = deeper
    if isinstance(inner, OSError) and inner.strerror:
        return inner.strerror
    return str(inner).partition("): ")[2] or str(inner)


def _last_cause(error: BaseException) -> BaseException | None:
    """Returns a cause that urllib3 passes as the last argument, or None."""
    last = error.args[-1] if error.args else None
    return last if isinstance(last, BaseException) else None


def redact_body(body: dict[str, Any]) -> str:
    """Returns a request's body for --debug, without secrets."""

    def cleaned(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: "***" if key in SECRET else cleaned(inner) for key, inner in value.items()}
        return value

    return json.dumps(cleaned(body))
