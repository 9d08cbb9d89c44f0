"""The limit of removals that need no operator: a database or an image service that is wrong shows many at once."""

from minova import errors


class TooManyRemovals(errors.MinovaError):
    """One round would remove more than the configuration allows."""


def too_many(count: int, most: int) -> TooManyRemovals:
    return TooManyRemovals(
        f"{count} images were deleted since the last round, and [api] max_automatic_image_removals is {most}. If that is right, "
        "raise the option and send SIGHUP to minova-api"
    )
