"""Policies of the Image API. `visibility` and `owner` are of the image in question."""

from minova.api.policies.base import Rule, rules

_MEMBER = "role:admin or (role:member and project_id:%(project_id)s)"
_READER = "role:admin or (role:reader and project_id:%(project_id)s)"
_SHOWN = (
    "project_id:%(project_id)s or project_id:%(member_id)s"
    ' or "community":%(visibility)s or "public":%(visibility)s or "shared":%(visibility)s'
)

RULES: tuple[Rule, ...] = rules(
    "",
    ("get_images", _READER, "List images."),
    ("get_image", f"role:admin or (role:reader and ({_SHOWN}))", "Show an image."),
    (
        "add_image",
        "role:admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)",
        "Create an image.",
    ),
    ("publicize_image", "role:admin", "Create a public image."),
    ("communitize_image", _MEMBER, "Create a community image."),
    ("delete_image", _MEMBER, "Delete an image."),
    ("upload_image", _MEMBER, "Upload the data of an image."),
    ("download_image", f"role:admin or (role:member and ({_SHOWN}))", "Download the data of an image."),
)
