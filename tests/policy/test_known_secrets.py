"""Secrets that are known word for word."""

from dovetail.policy.known_secrets import KnownSecrets


def test_known_secrets_are_redacted_in_whole_and_word_by_word() -> None:
    secrets = KnownSecrets()
    secrets.add(["Bearer staple-7-battery", None, ""])
    assert secrets.cover("It said: staple-7-battery.") == "It said: [redacted]."
    assert secrets.cover("Bearer staple-7-battery was refused") == "[redacted] was refused"


def test_the_longer_one_goes_first() -> None:
    secrets = KnownSecrets()
    secrets.add(["secret"])
    secrets.add(["secret-and-more"])
    assert secrets.cover("secret-and-more, secret") == "[redacted], [redacted]"


def test_what_is_short_may_stand_anywhere() -> None:
    secrets = KnownSecrets()
    secrets.add(["ab c", "x"])
    assert secrets.cover("ab c x") == "ab c x"
