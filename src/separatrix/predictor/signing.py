"""Signatures of a saved predictor: Ed25519 over its manifest, which holds the hash of every file.

The private key signs (`openssl genpkey -algorithm ed25519 -out private.pem`), the public key
verifies (`openssl pkey -in private.pem -pubout -out public.pem`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from separatrix.errors import DataError, InputError, MissingExtraError

__all__ = ["SIGNATURE", "Key", "sign", "verify"]

SIGNATURE = "manifest.sig"
Key = str | Path | bytes  # a file, or what it holds
_PURPOSE = b"separatrix predictor\n"  # a signature of anything else is none of this


def sign(manifest: bytes, key: Key) -> bytes:
    """The signature of a manifest, 128 hexadecimal digits."""
    serialization, ed25519 = _library()
    text = _content(key)
    try:
        private = serialization.load_pem_private_key(text, password=None)
    except (ValueError, TypeError) as error:
        raise InputError(
            "The signing key must be an Ed25519 private key in PEM without a password: "
            "`openssl genpkey -algorithm ed25519 -out private.pem` makes one."
        ) from error
    if not isinstance(private, ed25519.Ed25519PrivateKey):
        raise InputError(f"The signing key must be of Ed25519, got {type(private).__name__}.")
    return bytes(private.sign(_PURPOSE + manifest)).hex().encode()


def verify(manifest: bytes, signature: bytes | None, key: Key, folder: Path) -> None:
    """Refuse a manifest that the owner of the key did not sign."""
    from importlib import import_module

    serialization, ed25519 = _library()
    text = _content(key)
    try:
        public = serialization.load_pem_public_key(text)
    except ValueError as error:
        raise InputError(
            "The verifying key must be an Ed25519 public key in PEM: "
            "`openssl pkey -in private.pem -pubout -out public.pem` makes it."
        ) from error
    if not isinstance(public, ed25519.Ed25519PublicKey):
        raise InputError(f"The verifying key must be of Ed25519, got {type(public).__name__}.")
    if signature is None:
        raise DataError(f"{str(folder)!r} is not signed: it has no {SIGNATURE}. Sign it on saving.")
    try:
        public.verify(bytes.fromhex(signature.decode("ascii")), _PURPOSE + manifest)
    except (ValueError, import_module("cryptography.exceptions").InvalidSignature) as error:
        raise DataError(
            f"{str(folder)!r} was not signed by the owner of this key, or changed afterwards. It "
            "is not loaded."
        ) from error


def _content(key: Key) -> bytes:
    if isinstance(key, bytes):
        return key
    try:
        return Path(key).read_bytes()
    except OSError as error:
        raise InputError(f"The key {str(key)!r} cannot be read: {error.strerror}.") from error


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtraError(
            "Signatures need cryptography: pip install 'separatrix[sign]'."
        ) from error
    return serialization, ed25519
