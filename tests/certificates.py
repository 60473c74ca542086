"""Certificates that sign themselves, for tests of https."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from lakestream.clock import SystemClock

if TYPE_CHECKING:
    from pathlib import Path


def certificate(folder: Path, *, name: str = "lake", password: bytes | None = None) -> tuple[Path, Path]:
    """Write a certificate that signs itself, and its key; return the two files."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    now = SystemClock().now()
    made = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    signed = made.not_valid_before(now).not_valid_after(now + timedelta(days=1)).sign(key, hashes.SHA256())
    encryption = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    )
    return files
