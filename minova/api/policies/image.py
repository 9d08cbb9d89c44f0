"""Policies of the Image API. `visibility` and `owner` are those of the image; `member_id` is the caller's project, if
it is a member of the image.
"""

from minova.api.policies.base import PolicyRule, rules

_MEMBER = "role:admin or (role:member and project_id:%(project_id)s)"
_OWNER_OR_SHARED = "role:admin or role:reader and (project_id:%(project_id)s or project_id:%(member_id)s)"
_READER = "role:admin or (role:reader and project_id:%(project_id)s)"
_SHOWN = (
    "project_id:%(project_id)s or project_id:%(member_id)s"
    ' or "community":%(visibility)s or "public":%(visibility)s or "shared":%(visibility)s'
)

RULES: tuple[PolicyRule, ...] = rules(
    "",
    ("get_images", _READER, "List images."),
    ("get_image", f"role:admin or (role:reader and ({_SHOWN}))", "Show an image."),
    (
        "add_image",
        "role:admin or (role:member and project_id:%(project_id)s and project_id:%(owner)s)",
        "Create an image.",
    ),
    ("modify_image", _MEMBER, "Change an image and its tags; stage and import its data."),
    ("publicize_image", "role:admin", "Make an image public."),
    ("communitize_image", _MEMBER, "Make an image a community image."),
    ("delete_image", _MEMBER, "Delete an image."),
    ("upload_image", _MEMBER, "Upload the data of an image."),
    ("download_image", f"role:admin or (role:member and ({_SHOWN}))", "Download the data of an image."),
    ("deactivate", _MEMBER, "Deactivate an image: its data cannot be downloaded."),
    ("reactivate", _MEMBER, "Reactivate an image."),
    ("get_members", _OWNER_OR_SHARED, "List the members of a shared image."),
    ("get_member", _OWNER_OR_SHARED, "Show a member of a shared image."),
    ("add_member", _MEMBER, "Share an image with a project."),
    ("modify_member", "role:admin or (role:member and project_id:%(member_id)s)", "Accept or reject a shared image."),
    ("delete_member", _MEMBER, "Share an image with a project no longer."),
)
