"""Public and private keys for signatures: JSON Web Keys and PEM.

RFC 7517, RFC 7518, section 6, RFC 8037 and RFC 7638. Only asymmetric keys are supported: no shared secrets.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, cast

import msgspec

from dovetail.protocol.errors import LocalError

from .errors import TokenRefused

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

ALGORITHMS = ("ES256", "RS256", "EdDSA")
MAX_KEYS = 100
MIN_RSA_BITS = 2048
MAX_RSA_BITS = 8192

_BASE64URL = re.compile(r"[A-Za-z0-9_-]*")
_MEMBERS = {"EC": ("crv", "kty", "x", "y"), "RSA": ("e", "kty", "n"), "OKP": ("crv", "kty", "x")}
"""The members of a public key, in the order of RFC 7638, section 3.2."""


class PublicKey:
    """A public key, which verifies signatures of one algorithm."""

    __slots__ = ("_verify", "alg", "jwk", "kid")

    def __init__(self, jwk: dict[str, Any]) -> None:
        """Read a JSON Web Key; raises `TokenRefused` for one that cannot be used to verify signatures."""
        self.jwk = _public_members(jwk)
        kid = jwk.get("kid")
        self.kid = kid if isinstance(kid, str) else None
        self.alg, self._verify = _verifier(self.jwk)
        operations: Any = jwk.get("key_ops")
        if jwk.get("use", "sig") != "sig" or jwk.get("alg", self.alg) != self.alg:
            raise TokenRefused("The key is for another purpose")
        if operations is not None and (not isinstance(operations, list) or "verify" not in operations):
            raise TokenRefused("The key is for another purpose")

    def verify(self, signed: bytes, signature: bytes) -> bool:
        """True if the signature is valid and was made with this key."""
        from cryptography.exceptions import InvalidSignature

        try:
            self._verify(signed, signature)
        except (InvalidSignature, ValueError):
            return False
        return True

    @property
    def thumbprint(self) -> str:
        """The thumbprint of the key (RFC 7638)."""
        return encode64(sha256(msgspec.json.encode(self.jwk)).digest())


class SigningKey:
    """A private key, which signs, with its public key."""

    __slots__ = ("_private", "_sign", "public")

    def __init__(self, private: PrivateKeyTypes, kid: str | None = None) -> None:
        jwk, self._sign = _signer(private)
        self._private = private
        self.public = PublicKey({**jwk, "kid": kid} if kid else jwk)

    @classmethod
    def generate(cls, alg: str = "ES256", kid: str | None = None) -> SigningKey:
        """Generate a new key."""
        from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

        makers: dict[str, Callable[[], PrivateKeyTypes]] = {
            "ES256": lambda: ec.generate_private_key(ec.SECP256R1()),
            "RS256": lambda: rsa.generate_private_key(65537, MIN_RSA_BITS),
            "EdDSA": ed25519.Ed25519PrivateKey.generate,
        }
        if alg not in makers:
            raise LocalError(f"The algorithm of a key is one of {', '.join(makers)}, not {alg!r}")
        return cls(makers[alg](), kid)

    @classmethod
    def from_pem(cls, pem: str | bytes, kid: str | None = None, password: bytes | None = None) -> SigningKey:
        """Read a key in PEM format."""
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            private = load_pem_private_key(pem.encode() if isinstance(pem, str) else pem, password)
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise LocalError("This is not a private key in PEM format, or the password is wrong") from None
        return cls(private, kid)

    def to_pem(self) -> str:
        """The key in PEM format, not encrypted."""
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        return self._private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

    @property
    def alg(self) -> str:
        return self.public.alg

    @property
    def kid(self) -> str | None:
        return self.public.kid

    def sign(self, content: bytes) -> bytes:
        """Sign bytes; the signature has the format of JWS."""
        return self._sign(content)

    def __repr__(self) -> str:
        return f"SigningKey({self.alg})"


def read_key_set(fields: dict[str, Any]) -> tuple[PublicKey, ...]:
    """The supported keys of a JSON Web Key Set; others are ignored (RFC 7517, section 5)."""
    listed: Any = fields.get("keys")
    if not isinstance(listed, list):
        raise TokenRefused("This is not a JSON Web Key Set")
    keys: list[PublicKey] = []
    for jwk in cast("list[Any]", listed)[:MAX_KEYS]:
        try:
            keys.append(PublicKey(jwk))
        except TokenRefused:
            continue
    return tuple(keys)


def encode64(content: bytes) -> str:
    """Encode as base64url without padding."""
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def decode64(text: object) -> bytes:
    """Decode base64url without padding; any other encoding of the same bytes is refused."""
    if isinstance(text, str) and _BASE64URL.fullmatch(text):
        try:
            content = urlsafe_b64decode(text + "=" * (-len(text) % 4))
        except (Base64Error, ValueError):
            raise TokenRefused("Not base64url") from None
        if encode64(content) == text:
            return content
    raise TokenRefused("Not base64url")


def _public_members(jwk: object) -> dict[str, str]:
    fields = cast("dict[str, Any]", jwk) if isinstance(jwk, dict) else {}
    kind = fields.get("kty")
    members = _MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        raise TokenRefused("The key is of an unsupported type")
    public = {name: fields.get(name) for name in members}
    for value in public.values():
        if not isinstance(value, str) or len(value) > 2048:
            raise TokenRefused("The key is not complete")
    return cast("dict[str, str]", public)


def _verifier(jwk: dict[str, str]) -> tuple[str, Callable[[bytes, bytes], None]]:
    try:
        if jwk["kty"] == "EC":
            return "ES256", _ec_verifier(jwk)
        if jwk["kty"] == "RSA":
            return "RS256", _rsa_verifier(jwk)
        return "EdDSA", _ed_verifier(jwk)
    except ValueError:
        raise TokenRefused("The key is not valid") from None


def _ec_verifier(jwk: dict[str, str]) -> Callable[[bytes, bytes], None]:
    from cryptography.hazmat.primitives.asymmetric import ec, utils
    from cryptography.hazmat.primitives.hashes import SHA256

    x, y = decode64(jwk["x"]), decode64(jwk["y"])
    if jwk["crv"] != "P-256" or len(x) != 32 or len(y) != 32:
        raise TokenRefused("The key is of an unsupported curve")
    numbers = ec.EllipticCurvePublicNumbers(int.from_bytes(x, "big"), int.from_bytes(y, "big"), ec.SECP256R1())
    public = numbers.public_key()

    def verify(signed: bytes, signature: bytes) -> None:
        if len(signature) != 64:
            raise ValueError
        r, s = int.from_bytes(signature[:32], "big"), int.from_bytes(signature[32:], "big")
        public.verify(utils.encode_dss_signature(r, s), signed, ec.ECDSA(SHA256()))

    return verify


def _rsa_verifier(jwk: dict[str, str]) -> Callable[[bytes, bytes], None]:
    from cryptography.hazmat.primitives.asymmetric import padding, rsa
    from cryptography.hazmat.primitives.hashes import SHA256

    n, e = (int.from_bytes(decode64(jwk[name]), "big") for name in ("n", "e"))
    if not MIN_RSA_BITS <= n.bit_length() <= MAX_RSA_BITS or e.bit_length() > 32:
        raise TokenRefused("The key is too short, or too long")
    public = rsa.RSAPublicNumbers(e, n).public_key()
    return lambda signed, signature: public.verify(signature, signed, padding.PKCS1v15(), SHA256())


def _ed_verifier(jwk: dict[str, str]) -> Callable[[bytes, bytes], None]:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if jwk["crv"] != "Ed25519":
        raise TokenRefused("The key is of an unsupported curve")
    public = Ed25519PublicKey.from_public_bytes(decode64(jwk["x"]))
    return lambda signed, signature: public.verify(signature, signed)


def _signer(private: PrivateKeyTypes) -> tuple[dict[str, Any], Callable[[bytes], bytes]]:
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa, utils
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    if isinstance(private, ec.EllipticCurvePrivateKey) and isinstance(private.curve, ec.SECP256R1):
        point = private.public_key().public_numbers()
        x, y = (encode64(number.to_bytes(32, "big")) for number in (point.x, point.y))

        def sign(content: bytes) -> bytes:
            r, s = utils.decode_dss_signature(private.sign(content, ec.ECDSA(SHA256())))
            return r.to_bytes(32, "big") + s.to_bytes(32, "big")

        return {"kty": "EC", "crv": "P-256", "x": x, "y": y}, sign
    if isinstance(private, rsa.RSAPrivateKey):
        numbers = private.public_key().public_numbers()
        n, e = (encode64(each.to_bytes((each.bit_length() + 7) // 8, "big")) for each in (numbers.n, numbers.e))
        return {"kty": "RSA", "n": n, "e": e}, lambda content: private.sign(content, padding.PKCS1v15(), SHA256())
    if isinstance(private, ed25519.Ed25519PrivateKey):
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        return {"kty": "OKP", "crv": "Ed25519", "x": encode64(raw)}, private.sign
    raise LocalError("A signing key must be a P-256, Ed25519 or RSA key")
