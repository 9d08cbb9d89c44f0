"""Vendor data: data of the operator for guests, from a file and from services that are called for each guest.

A service receives a POST with a JSON object that describes the guest, and responds with a JSON value.
`vendor_data2.json` contains that value under the service's name.
"""

import json
import logging
from pathlib import Path
from typing import Any

import msgspec
import urllib3
from oslo_config import cfg

from minova.codecs import parse_json
from minova.concurrency.outside_waits import waiting
from minova.errors import InvalidConfiguration, ServiceUnavailable
from minova.objects.servers.instance import Instance

LOG = logging.getLogger(__name__)
STATIC, DYNAMIC = "StaticJSON", "DynamicJSON"
# The largest size of a service's response, in bytes.
LONGEST_ANSWER = 1 << 20


class VendorData:
    """The vendor data of one host, as its options say. Call `check` first."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._options = conf.api
        self._static: dict[str, Any] = {}
        self._targets: dict[str, str] = {}
        self._http = urllib3.PoolManager(
            timeout=urllib3.Timeout(
                connect=self._options.vendordata_dynamic_connect_timeout,
                read=self._options.vendordata_dynamic_read_timeout,
            ),
            retries=False,
            ca_certs=self._options.vendordata_dynamic_ssl_certfile or None,
            headers={"User-Agent": "minova", "Accept": "application/json", "Content-Type": "application/json"},
        )

    def check(self) -> None:
        """Reads the file, once. Raises InvalidConfiguration if the file or a target cannot be used."""
        providers = self._options.vendordata_providers
        if STATIC in providers and self._options.vendordata_jsonfile_path:
            self._static = _read(self._options.vendordata_jsonfile_path)
        if DYNAMIC in providers:
            self._targets = _targets(self._options.vendordata_dynamic_targets)

    def first(self) -> dict[str, Any]:
        """Returns the content of `vendor_data.json`."""
        return self._static

    def second(self, instance: Instance, hostname: str) -> dict[str, Any]:
        """Returns the content of `vendor_data2.json`. Raises ServiceUnavailable if a target does not answer correctly
        and `vendordata_dynamic_failure_fatal` is set.
        """
        documents: dict[str, Any] = {"static": self._static} if STATIC in self._options.vendordata_providers else {}
        for name, url in self._targets.items():
            documents[name] = self._ask(name, url, instance, hostname)
        return documents

    def _ask(self, name: str, url: str, instance: Instance, hostname: str) -> Any:
        described = {
            "project-id": instance.project_id,
            "instance-id": instance.uuid,
            "image-id": instance.image_ref or None,
            "user-data": instance.user_data,
            "hostname": hostname,
            "metadata": instance.metadata,
            "boot-roles": None,
        }
        try:
            return self._post(url, json.dumps(described).encode())
        except (urllib3.exceptions.HTTPError, ValueError) as error:
            if self._options.vendordata_dynamic_failure_fatal:
                raise ServiceUnavailable(f"Vendor data of {name} for instance {instance.uuid}: {error}") from error
            LOG.warning("Vendor data of %s are left out for instance %s: %s", name, instance.uuid, error)
            return {}

    def _post(self, url: str, body: bytes) -> Any:
        """Raises ValueError if the service responds with something else than JSON."""
        with waiting("a vendor data service"):
            return self._read_answer(self._http.request("POST", url, body=body, preload_content=False, redirect=False))

    def _read_answer(self, answer: urllib3.BaseHTTPResponse) -> Any:
        try:
            if answer.status not in (200, 201, 202):
                raise ValueError(f"the answer is {answer.status}")
            content = answer.read(LONGEST_ANSWER + 1)
            if len(content) > LONGEST_ANSWER:
                raise ValueError(f"the answer is longer than {LONGEST_ANSWER} bytes")
            return parse_json(content)
        except msgspec.DecodeError as error:
            raise ValueError(f"the answer is no JSON: {error}") from error
        finally:
            answer.close()


def _read(path: str) -> dict[str, Any]:
    option_text = f"[api] vendordata_jsonfile_path = {path}"
    try:
        document = json.loads(Path(path).read_bytes())
    except OSError as error:
        raise InvalidConfiguration(f"{option_text}: {error.strerror}") from error
    except ValueError as error:
        raise InvalidConfiguration(f"{option_text}: it is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise InvalidConfiguration(f"{option_text}: it must hold a JSON object")
    return document


def _targets(texts: list[str]) -> dict[str, str]:
    """Returns {name: URL}. A target without a name gets the name "", as in Nova."""
    urls: dict[str, str] = {}
    for text in texts:
        name, at, url = text.partition("@")
        name, url = (name, url) if at else ("", text)
        if not url.startswith(("http://", "https://")):
            raise InvalidConfiguration(
                f"[api] vendordata_dynamic_targets = {text}: expected NAME@URL, of HTTP or HTTPS"
            )
        if name == "static" or name in urls:
            raise InvalidConfiguration(f"[api] vendordata_dynamic_targets = {text}: the name is taken")
        urls[name] = url
    return urls
