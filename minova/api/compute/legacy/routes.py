"""Routes that newer microversions do not have, and routes that Nova has removed."""

from typing import Any

from minova.api.compute.legacy import extensions, images, networks, retired, security_groups
from minova.api.compute.servers.attributes.metadata import ManyItems, OneItem
from minova.api.http.definition import Route
from minova.api.http.links import Link
from minova.api.policies.base import AUTHENTICATED

# The last microversions that have these routes.
PROXIES, METADATA = (2, 35), (2, 38)
_IMAGE = "/v2.1/images/{image_id}"
_IMAGE_METADATA = f"{_IMAGE}/metadata"
_GROUPS, _RULES = "/v2.1/os-security-groups", "/v2.1/os-security-group-rules"
_A_GROUP = f"{_GROUPS}/{{security_group_id}}"
_ITEMS, _ITEM = {"metadata": dict[str, str]}, {"meta": dict[str, str]}
_GROUP = {"security_group": dict[str, Any]}
_SECURITY_GROUPS = "os_compute_api:os-security-groups"

# Routes of images have the policies of the Image API; with Glance, Glance's own policies apply.
ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="/v2.1/extensions",
        rule="os_compute_api:extensions",
        handler=extensions.list_extensions,
        answer={"extensions": list[extensions.Extension]},
    ),
    Route(
        method="GET",
        path="/v2.1/extensions/{extension}",
        rule="os_compute_api:extensions",
        handler=extensions.show,
        answer={"extension": extensions.Extension},
    ),
    Route(
        method="GET",
        path="/v2.1/images",
        rule=AUTHENTICATED,
        handler=images.list_images,
        answer={"images": list[images.ImageBrief], "images_links?": list[Link]},
        query=images.ImagesQuery,
        until=PROXIES,
    ),
    Route(
        method="GET",
        path="/v2.1/images/detail",
        rule=AUTHENTICATED,
        handler=images.list_detail,
        answer={"images": list[images.ImageView], "images_links?": list[Link]},
        query=images.ImagesQuery,
        until=PROXIES,
    ),
    Route(
        method="GET",
        path=_IMAGE,
        rule=AUTHENTICATED,
        handler=images.show,
        answer={"image": images.ImageView},
        until=PROXIES,
    ),
    Route(method="DELETE", path=_IMAGE, rule=AUTHENTICATED, handler=images.delete, status=204, until=PROXIES),
    *(
        Route(
            method=method,
            path=path,
            rule=AUTHENTICATED,
            handler=handler,
            body=body,
            answer=answer,
            status=204 if handler is images.delete_item else 200,
            until=METADATA,
        )
        for method, path, handler, body, answer in (
            ("GET", _IMAGE_METADATA, images.list_metadata, None, _ITEMS),
            ("POST", _IMAGE_METADATA, images.create_metadata, ManyItems, _ITEMS),
            ("PUT", _IMAGE_METADATA, images.replace_metadata, ManyItems, _ITEMS),
            ("GET", f"{_IMAGE_METADATA}/{{key}}", images.show_item, None, _ITEM),
            ("PUT", f"{_IMAGE_METADATA}/{{key}}", images.update_item, OneItem, _ITEM),
            ("DELETE", f"{_IMAGE_METADATA}/{{key}}", images.delete_item, None, {}),
        )
    ),
    *(
        Route(
            method="GET",
            path=f"/v2.1/{resource}{item}",
            rule=f"os_compute_api:{resource}:{verb}",
            handler=handler,
            answer={"network": dict[str, Any]} if item else {"networks": list[dict[str, Any]]},
            until=PROXIES,
        )
        for resource, item, verb, handler in (
            ("os-networks", "", "list", networks.list_networks),
            ("os-networks", "/{network_id}", "show", networks.show),
            ("os-tenant-networks", "", "list", networks.list_of_project),
            ("os-tenant-networks", "/{network_id}", "show", networks.show_of_project),
        )
    ),
    Route(
        method="GET",
        path=_GROUPS,
        rule=f"{_SECURITY_GROUPS}:get",
        handler=security_groups.list_groups,
        answer={"security_groups": list[dict[str, Any]]},
        query=security_groups.GroupsQuery,
        until=PROXIES,
    ),
    *(
        Route(
            method=method,
            path=path,
            rule=f"{_SECURITY_GROUPS}:{verb}",
            handler=handler,
            body=body,
            answer=answer,
            status=202 if method == "DELETE" else 200,
            until=PROXIES,
        )
        for method, path, verb, handler, body, answer in (
            ("POST", _GROUPS, "create", security_groups.create, security_groups.GroupBody, _GROUP),
            ("GET", _A_GROUP, "show", security_groups.show, None, _GROUP),
            ("PUT", _A_GROUP, "update", security_groups.update, security_groups.GroupBody, _GROUP),
            ("DELETE", _A_GROUP, "delete", security_groups.delete, None, {}),
            (
                "POST",
                _RULES,
                "rule:create",
                security_groups.create_rule,
                security_groups.RuleBody,
                {"security_group_rule": dict[str, Any]},
            ),
            ("DELETE", f"{_RULES}/{{security_group_rule_id}}", "rule:delete", security_groups.delete_rule, None, {}),
        )
    ),
    *retired.ROUTES,
)
