"""Signatures: whoever has the public key of an office knows its releases, and knows a forged one."""

from __future__ import annotations

import json
import shutil
import stat
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from tests.kits.forged import rehash
from tests.kits.small import KEY
from typer.testing import CliRunner

import confide
from confide.cli.main import app
from confide.errors import ConfideError
from confide.file_system import sha256_of
from confide.releases.signature import SignatureKey


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> SignatureKey:
    return confide.new_signature_key(tmp_path_factory.mktemp("office") / "office.key")


@pytest.fixture
def signed(sealed_copy: Path, office: SignatureKey) -> Path:
    """A signed release."""
    return confide.sign_release(sealed_copy / "small", office.private).parent


def code_of(refusal: pytest.ExceptionInfo[ConfideError]) -> str:
    (finding,) = refusal.value.findings
    assert finding.remedy
    return finding.code


def test_a_signed_release_is_known_without_a_ledger(sealed_copy: Path, signed: Path, office: SignatureKey) -> None:
    before = {path: path.read_bytes() for path in signed.rglob("*") if path.is_file()}
    verification = confide.verify(signed, public_key=office.public)
    assert verification.ok
    assert (verification.verdict, verification.vouched_by) == ("as sealed", ("signature",))
    assert any(office.fingerprint in check.detail for check in verification.checks)
    # Without the key of the office a signature vouches for nobody.
    assert confide.verify(signed).ok
    assert confide.verify(signed).verdict == "consistent with itself"
    # It changes no other byte, and can be made again.
    assert confide.verify(signed, ledger=sealed_copy / "people.ledger", public_key=office.public).ok
    confide.sign_release(sealed_copy / "small", office.private)
    assert {path: path.read_bytes() for path in signed.rglob("*") if path.is_file()} == before
    assert confide.replay(sealed_copy / "small").ok
    assert confide.run(sealed_copy / "spec.toml").was_sealed_before


def test_the_signature_is_the_documented_one(signed: Path, office: SignatureKey) -> None:
    """As somebody checks it who has no Confide."""
    stated = json.loads((signed / "signature.json").read_text())
    message = b"confide/signature/v1\n" + sha256_of(signed / "manifest.json").encode() + b"\n"
    key = load_pem_public_key(office.public.read_bytes())
    key.verify(bytes.fromhex(stated["signature"]), message)  # type: ignore[union-attr, call-arg]
    with pytest.raises(InvalidSignature):
        key.verify(bytes.fromhex(stated["signature"]), message[:-1])  # type: ignore[union-attr, call-arg]


@pytest.mark.parametrize(
    "forgery",
    [
        "another title",
        "no signature",
        "of another key",
        "names another key",
        "of another release",
        "of nobody",
        "more in it",
        "a link",
    ],
)
def test_a_forged_release_is_not_the_offices(
    signed: Path, office: SignatureKey, tmp_path: Path, sealed_copy: Path, forgery: str
) -> None:
    file = signed / "signature.json"
    if forgery == "another title":
        manifest = json.loads((signed / "manifest.json").read_text())
        rehash(signed, manifest | {"title": "Another title"})
    elif forgery == "no signature":
        file.unlink()
    elif forgery == "of another key":
        other = confide.new_signature_key(tmp_path / "other.key")
        confide.sign_release(sealed_copy / "small", other.private)
        assert confide.verify(signed).ok
    elif forgery == "names another key":
        other = confide.new_signature_key(tmp_path / "other.key")
        raw = load_pem_public_key(other.public.read_bytes()).public_bytes(Encoding.Raw, PublicFormat.Raw)
        file.write_text(json.dumps(json.loads(file.read_text()) | {"public_key": raw.hex()}, indent=1) + "\n")
    elif forgery == "a link":
        file.rename(tmp_path / "elsewhere.json")
        file.symlink_to(tmp_path / "elsewhere.json")
    elif forgery == "of another release":
        stated = json.loads(file.read_text())
        file.write_text(json.dumps(stated | {"manifest_sha256": "00" * 32}, indent=1) + "\n")
    elif forgery == "of nobody":
        stated = json.loads(file.read_text())
        file.write_text(json.dumps(stated | {"signature": "5a" * 64}, indent=1) + "\n")
    else:
        file.write_text(json.dumps(json.loads(file.read_text()) | {"note": "rho = 1/4000"}, indent=1) + "\n")
    assert not confide.verify(signed, public_key=office.public).ok
    assert confide.verify(signed).ok == (forgery in ("no signature", "of another key"))


def test_keys_are_private_and_never_overwritten(tmp_path: Path, office: SignatureKey) -> None:
    assert stat.S_IMODE(office.private.stat().st_mode) == 0o600
    assert stat.S_IMODE(office.public.stat().st_mode) == 0o644
    secret = office.private.read_text()
    assert "PRIVATE" not in office.public.read_text()
    with pytest.raises(ConfideError) as refusal:
        confide.new_signature_key(office.private)
    assert code_of(refusal) == "signature-key"
    assert office.private.read_text() == secret
    result = CliRunner().invoke(app, ["new", "signature", str(tmp_path / "k"), "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout)["public"] == str(tmp_path / "k.pub")
    private = (tmp_path / "k").read_text().splitlines()[1]
    assert private not in result.stdout


def test_a_key_that_cannot_sign_is_found_before_anything_is_spent(project: Path, office: SignatureKey) -> None:
    ledger = (project / "people.ledger").read_bytes()
    open_key = Path(shutil.copy(office.private, project / "open.key"))
    open_key.chmod(0o644)
    public = Path(shutil.copy(office.public, project / "public.key"))
    for closed in (public, project / "spec.toml"):
        closed.chmod(0o600)
    for wrong in (open_key, public, project / "spec.toml", project / "nothing.key"):
        with pytest.raises(ConfideError) as refusal:
            confide.run(project / "spec.toml", sign=wrong)
        assert code_of(refusal) == "signature-key"
    with pytest.raises(ConfideError) as refusal:
        confide.run(project / "spec.toml", sign=office.private, insecure_key=KEY)
    assert code_of(refusal) == "signature-stamped"
    assert (project / "people.ledger").read_bytes() == ledger
    assert not (project / "small").exists()


def test_only_what_was_sealed_is_signed(sealed_copy: Path, project: Path, office: SignatureKey) -> None:
    manifest = json.loads((sealed_copy / "small/release/manifest.json").read_text())
    rehash(sealed_copy / "small/release", manifest | {"title": "Another title"})
    with pytest.raises(ConfideError) as refusal:
        confide.sign_release(sealed_copy / "small", office.private)
    assert code_of(refusal) == "release-changed"
    assert not (sealed_copy / "small/release/signature.json").exists()
    confide.run(project / "spec.toml", insecure_key=KEY)
    with pytest.raises(ConfideError) as refusal:
        confide.sign_release(project / "small", office.private)
    assert code_of(refusal) == "signature-stamped"


def test_run_signs_and_verify_says_as_sealed_on_the_command_line(project: Path, office: SignatureKey) -> None:
    runner, key = CliRunner(), str(office.private)
    assert runner.invoke(app, ["run", str(project / "spec.toml"), "--sign", key, "--processes", "1"]).exit_code == 0
    release = str(project / "small/release")
    result = runner.invoke(app, ["verify", release, "--public-key", str(office.public)])
    assert result.exit_code == 0
    assert "The release small is as sealed." in result.stdout
    alone = runner.invoke(app, ["verify", release])
    assert "The release small is consistent with itself." in alone.stdout
    assert runner.invoke(app, ["seal", str(project / "small")]).exit_code == 2
    assert runner.invoke(app, ["seal", str(project / "small"), "--sign", key, "--destroy-key"]).exit_code == 0
    assert confide.verify(release, public_key=office.public).ok
