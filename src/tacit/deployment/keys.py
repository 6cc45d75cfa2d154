"""Certificates and keys of a deployment, made by `cryptography`.

A deployment has an authority of its own. It signs the certificate of the server, and nodes trust
that authority and no other. Every node has a key pair, by which the server knows it again; its
private half never leaves the node. Files that hold a secret may be read by their owner alone.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tacit.errors import TacitError
from tacit.files import reading, writing

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:  # said by `require_cryptography`, to whoever makes keys
    pass

AUTHORITY_DAYS = 3650
CERTIFICATE_DAYS = 365
EARLIER = datetime.timedelta(days=1)  # clocks of other machines may be behind


@dataclass(frozen=True)
class KeyPair:
    """A certificate or a public key, and the private key to it: both as the text of a file."""

    public: bytes
    private: bytes = field(repr=False)

    def write(self, public: Path, private: Path) -> None:
        """Write both files; the private one only for its owner."""
        write_secret(private, self.private)
        with writing(public):
            public.write_bytes(self.public)


def write_secret(path: Path, content: bytes) -> None:
    """A new file that only its owner may read; it is never readable by others, not for a moment.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_secret(Path(folder, "key"), b"secret")
    ...     oct(Path(folder, "key").stat().st_mode & 0o777)
    '0o600'
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with writing(path):
            handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(handle, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def make_authority(name: str) -> KeyPair:
    """A certificate authority for one deployment."""
    require_cryptography()
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{name} authority")])
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _builder(subject, subject, key, AUTHORITY_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(signs_certificates=True), critical=True)
    builder = builder.add_extension(identifier, critical=False)
    return _pair(builder, key, signer=key)


def make_certificate(authority: KeyPair, name: str, hosts: Sequence[str]) -> KeyPair:
    """A certificate of the authority for a server that is reached under these names."""
    require_cryptography()
    issuer, issuer_key = _loaded(authority)
    key = ec.generate_private_key(ec.SECP384R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = _builder(subject, issuer.subject, key, CERTIFICATE_DAYS)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
    builder = builder.add_extension(_usage(signs_certificates=False), critical=True)
    purpose = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    builder = builder.add_extension(purpose, critical=False)
    names = x509.SubjectAlternativeName([_host(host) for host in hosts])
    builder = builder.add_extension(names, critical=False)
    of_key = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = builder.add_extension(of_key, critical=False)
    of_issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    builder = builder.add_extension(of_issuer, critical=False)
    return _pair(builder, key, signer=issuer_key)


def make_node_key(name: str) -> KeyPair:
    """The key pair by which a SuperNode shows who it is, in the format that Flower reads.

    >>> make_node_key("node-1").public.split()[0]
    b'ecdsa-sha2-nistp384'
    """
    require_cryptography()
    key = ec.generate_private_key(ec.SECP384R1())
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return KeyPair(public + f" {name}\n".encode(), private)


def read_pair(public: Path, private: Path) -> KeyPair:
    """A pair that was written before."""
    with reading(public, "make the deployment anew, or bring the file back"):
        content = public.read_bytes()
    with reading(private, "make the deployment anew, or bring the file back"):
        return KeyPair(content, private.read_bytes())


def days_left(certificate: Path) -> int:
    """How many days a certificate is still good for; fewer than none where it has run out."""
    require_cryptography()
    with reading(certificate, "make the deployment anew, or bring the file back"):
        try:
            found = x509.load_pem_x509_certificate(certificate.read_bytes())
        except ValueError as error:
            raise TacitError(f"{str(certificate)!r} holds no certificate; renew it.") from error
    return (found.not_valid_after_utc - datetime.datetime.now(datetime.UTC)).days


def require_cryptography() -> None:
    """Refuse in a sentence where the library is missing."""
    if "x509" not in globals():
        raise TacitError(
            "Keys and certificates need 'cryptography'; get it with: pip install 'tacit[flower]'"
        )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - EARLIER)
        .not_valid_after(now + datetime.timedelta(days=days))
    )


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _pair(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: ec.EllipticCurvePrivateKey,
) -> KeyPair:
    certificate = builder.sign(signer, hashes.SHA384())
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return KeyPair(certificate.public_bytes(Encoding.PEM), private)


def _loaded(pair: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = load_pem_private_key(pair.private, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return x509.load_pem_x509_certificate(pair.public), key
