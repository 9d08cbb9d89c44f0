"""A token opens one image for a few minutes, whatever clock the hosts have and not if a byte of it changes."""

import base64
import json

import pytest
from itsdangerous import URLSafeSerializer

from minova.image_tokens import LEEWAY, LIFETIME, PERIOD, Keys, Right, TokenRefused, image_of, sign

IMAGE, OTHER = "7d1d8e0c-97e1-4c5f-8c55-0a4a3b1f3f10", "00000000-97e1-4c5f-8c55-0a4a3b1f3f10"
NOW = 500_000 * PERIOD + 1800.0
SECRETS = {499_999: "before", 500_000: "now", 500_001: "next"}


def keys(now: float = NOW, secrets: dict[int, str] = SECRETS) -> Keys:
    return Keys(now=now, secrets=secrets)


def reason(token: str, checked: Keys) -> str:
    with pytest.raises(TokenRefused) as caught:
        image_of(token, checked)
    return caught.value.reason


@pytest.mark.parametrize("later", [0.0, 1.0, LIFETIME - 1])
def test_token_is_for_its_image_while_it_lasts(later: float) -> None:
    assert image_of(sign("now", IMAGE, NOW), keys(NOW + later)) == IMAGE


@pytest.mark.parametrize("later", [LIFETIME, LIFETIME + 1, 2 * PERIOD])
def test_token_expires(later: float) -> None:
    secrets = dict.fromkeys(range(499999, 500004), "now")
    assert reason(sign("now", IMAGE, NOW), keys(NOW + later, secrets)) == "expired"


def test_signer_may_reckon_a_little_ahead() -> None:
    """Signer and API read the database's clock at different times, and count on with clocks of their own."""
    assert image_of(sign("now", IMAGE, NOW + LEEWAY), keys(NOW)) == IMAGE


def test_token_of_a_clock_that_was_set_back_is_refused() -> None:
    assert reason(sign("now", IMAGE, NOW + 60), keys(NOW)) == "expired"


def test_every_change_of_a_token_is_refused() -> None:
    token = sign("now", IMAGE, NOW)
    for place in range(len(token)):
        other = "A" if token[place] != "A" else "B"
        changed = token[:place] + other + token[place + 1 :]
        # The last character of a base64 text has bits that say nothing.
        if place != len(token) - 1:
            assert reason(changed, keys()) == "invalid", place
    for changed in ("", ".", token[:-1], token + "A", f" {token}", token.rpartition(".")[0], "a.b.c", "\0", "ü"):
        assert reason(changed, keys()) == "invalid", changed


def test_claims_can_not_be_changed_under_a_signature() -> None:
    claims, _, signature = sign("now", IMAGE, NOW).rpartition(".")
    forged = json.dumps({"image": OTHER, "expires": NOW + 60}).encode()
    assert claims
    assert reason(f"{base64.urlsafe_b64encode(forged).decode().rstrip('=')}.{signature}", keys()) == "invalid"


@pytest.mark.parametrize("claims", [None, [], "text", {"image": IMAGE}, {"image": 1, "expires": NOW + 1}])
def test_signed_words_that_are_no_claims_are_refused(claims: object) -> None:
    signed = sign.__globals__["_serializer"](["now"], Right.DOWNLOAD).dumps(claims)
    assert reason(signed, keys()) == "invalid"


def test_signature_for_another_purpose_is_refused() -> None:
    signed = URLSafeSerializer("now", salt="another purpose").dumps({"image": IMAGE, "expires": NOW + 60})
    assert reason(str(signed), keys()) == "invalid"


@pytest.mark.parametrize(("secret", "accepted"), [("before", True), ("next", True), ("long ago", False), ("", False)])
def test_keys_of_the_periods_beside_this_one_are_accepted(secret: str, accepted: bool) -> None:
    checked = keys(secrets=SECRETS | {499_998: "long ago", 500_002: "far"})
    token = sign(secret, IMAGE, NOW)
    assert (image_of(token, checked) == IMAGE) if accepted else (reason(token, checked) == "invalid")


def test_without_keys_every_token_is_refused() -> None:
    assert reason(sign("now", IMAGE, NOW), keys(secrets={})) == "invalid"


def test_key_outlives_what_it_has_signed() -> None:
    """To the last second of its period."""
    last = (500_001 * PERIOD) - 1
    assert image_of(sign("now", IMAGE, last), keys(last + LIFETIME - 1)) == IMAGE
