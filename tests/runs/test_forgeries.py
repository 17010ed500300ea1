"""Releases that somebody forged: found by ``verify`` alone wherever the manifest's own plan contradicts them, and by
the ledger in every case."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from tests.kits.forged import rehash, remake
from tests.kits.small import SPEC

import confide
from confide.errors import ConfideError
from confide.file_system import sha256_of
from confide.mechanisms import MECHANISMS
from confide.noise import DiscreteGaussian
from confide.privacy import ZCDP
from confide.releases.companions.explanations import companions
from confide.releases.folder import SealedRelease, manifest_of, manifest_text
from confide.releases.plan import Plan, read_plan
from confide.releases.verify import _plan

Manifest = dict[str, Any]


# A forger who knows the format


def read(release: Path) -> Manifest:
    manifest: Manifest = json.loads((release / "manifest.json").read_text(encoding="utf-8"))
    return manifest


def write(release: Path, manifest: Manifest) -> None:
    """The manifest as Confide writes it, with hashes and sizes of the files as they are."""
    rehash(release, manifest)


def restate(release: Path, manifest: Manifest) -> None:
    """The page made anew from the manifest, as the mechanism makes it."""
    for name, text in MECHANISMS["tables"].documents({k: v for k, v in manifest.items() if k != "files"}).items():
        (release / name).write_text(text, encoding="utf-8")
    remake(release, manifest)


def change_table(
    release: Path, name: str, change: Callable[[pa.Table], pa.Table], metadata: dict[bytes, bytes] | None = None
) -> None:
    """The same change to a table in both formats, with new hashes."""
    file = release / f"tables/{name}.parquet"
    table = pq.read_table(file)
    other = change(table).cast(table.schema.with_metadata({**table.schema.metadata, **(metadata or {})}))
    pq.write_table(other, file, compression="zstd")
    options = pyarrow.csv.WriteOptions(quoting_style="needed")
    pyarrow.csv.write_csv(other, file.with_suffix(".csv"), options)
    remake(release)


def added(number: int) -> Callable[[Path], None]:
    def change(table: pa.Table) -> pa.Table:
        counts = table.column("count").to_pylist()
        return table.set_column(table.schema.get_field_index("count"), "count", [[counts[0] + number, *counts[1:]]])

    return lambda release: change_table(release, "sex", change)


def consistent_margins(release: Path) -> None:
    """Every margin is made the sum of its cells."""

    def change(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        sums: Counter[tuple[str, ...]] = Counter()
        for row in rows:
            if row["margin"] == "cell":
                for sex, age in product((row["sex"], "_T"), (row["age:broad"], "_T")):
                    sums[row["level"], row["area"], sex, age] += row["count"]
        counts = [sums[row["level"], row["area"], row["sex"], row["age:broad"]] for row in rows]
        return table.set_column(table.schema.get_field_index("count"), "count", [counts])

    change_table(release, "sex", change)


def said(*path: str, value: Any) -> Callable[[Path], None]:
    """One value of the manifest is another, and the page says so too."""

    def forge(release: Path) -> None:
        manifest = read(release)
        inner = manifest
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
        restate(release, manifest)

    return forge


def other_margins(release: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index("noise_margin"), "noise_margin", [[1] * table.num_rows])

    change_table(release, "sex", change)


def other_variances(release: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index("variance"), "variance", [[0.5] * table.num_rows])

    change_table(release, "sex", change)


def exchanged(column: str) -> Callable[[Path], None]:
    """Two codes, or two labels, change places, and what stands beside them stays."""

    def change(table: pa.Table) -> pa.Table:
        first, second = (text for text in dict.fromkeys(table.column(column).to_pylist()) if text != "_T")
        other = {first: second, second: first}
        texts = [other.get(text, text) for text in table.column(column).to_pylist()]
        return table.set_column(table.schema.get_field_index(column), column, [texts])

    return lambda release: change_table(release, "sex", change)


def totals_as_cells(release: Path) -> None:
    def change(table: pa.Table) -> pa.Table:
        return table.set_column(table.schema.get_field_index("margin"), "margin", [["cell"] * table.num_rows])

    change_table(release, "sex", change)


def other_cells(release: Path) -> None:
    file = release / "cells/sex.csv"
    header, *rows = file.read_text(encoding="utf-8").splitlines()
    file.write_text("\n".join([header, *reversed(rows)]) + "\n", encoding="utf-8")
    write(release, read(release))


def other_codebook(release: Path) -> None:
    page = release / "codebook.html"
    page.write_text(page.read_text(encoding="utf-8").replace("female", "women"), encoding="utf-8")
    write(release, read(release))


def cheaper(times: int | Fraction) -> Callable[[Path], None]:
    """All of the plan promises more than the noise gives: laws, losses, hash, words, page and metadata."""

    def forge(release: Path) -> None:
        manifest = read(release)
        plan = read_plan(manifest["plan"])
        measures = []
        for measure in plan.measures:
            assert isinstance(measure.law, DiscreteGaussian)
            assert isinstance(measure.loss, ZCDP)
            law = DiscreteGaussian(measure.law.sigma2 * times)
            measures.append(replace(measure, law=law, loss=ZCDP(measure.loss.rho / times)))
        put_plan(release, manifest, replace(plan, measures=tuple(measures)))

    return forge


def put_plan(release: Path, manifest: Manifest, plan: Plan) -> None:
    mechanism = MECHANISMS["tables"]
    restated = mechanism.restated(plan, manifest)
    explore = manifest.get("explore")
    anew = manifest_of(manifest["release"], manifest["title"], plan, restated, {}, stamped=False, explore=explore)
    laws = {measure.level: measure.law for measure in plan.measures}
    for file in (release / "tables").glob("*.parquet"):

        def change(table: pa.Table) -> pa.Table:
            levels = table.column("level").to_pylist()
            margins = [laws[level].noise_margin("0.95") for level in levels]
            variances = [laws[level].variance() for level in levels]
            table = table.set_column(table.schema.get_field_index("noise_margin"), "noise_margin", [margins])
            return table.set_column(table.schema.get_field_index("variance"), "variance", [variances])

        change_table(release, file.stem, change, {b"plan_hash": plan.hash.encode()})
    restate(release, json.loads(json.dumps(anew | {"files": manifest["files"]})))


def nothing_measured(release: Path) -> None:
    manifest = read(release)
    plan = replace(read_plan(manifest["plan"]), measures=())
    for folder in ("tables", "cells"):
        shutil.rmtree(release / folder)
    manifest["files"] = [file for file in manifest["files"] if "rows" not in file or file["path"] == "areas.csv"]
    (release / "tables").mkdir()
    put_plan(release, manifest, plan)
    (release / "tables").rmdir()


def changed_page(old: str, new: str) -> Callable[[Path], None]:
    def forge(release: Path) -> None:
        page = release / "certificate.html"
        text = page.read_text(encoding="utf-8")
        assert old in text
        page.write_text(text.replace(old, new), encoding="utf-8")
        write(release, read(release))

    return forge


def page_of_another(release: Path) -> None:
    """A certificate that Confide did make, of a plan that costs less."""
    manifest = read(release)
    cheaper(100)(release)
    page = (release / "certificate.html").read_text(encoding="utf-8")
    put_plan(release, manifest, read_plan(manifest["plan"]))
    (release / "certificate.html").write_text(page, encoding="utf-8")
    write(release, read(release))


def without_page(release: Path) -> None:
    manifest = read(release)
    (release / "certificate.html").unlink()
    manifest["files"] = [file for file in manifest["files"] if file["path"] != "certificate.html"]
    write(release, manifest)


def with_page(release: Path) -> None:
    manifest = read(release)
    (release / "explanation.html").write_text("rho = 1/4000")
    manifest["files"].append({"path": "explanation.html"})
    manifest["files"].sort(key=lambda file: str(file["path"]))
    write(release, manifest)


def key_twice(release: Path) -> None:
    file = release / "manifest.json"
    file.write_text(file.read_text().replace(' "privacy": {', ' "privacy": {"loss": {"rho": "0"}},\n "privacy": {', 1))


def table_elsewhere(release: Path) -> None:
    table = release / "tables/sex.csv"
    shutil.move(table, release.parent / "sex.csv")
    table.symlink_to(release.parent / "sex.csv")


def table_of_another(release: Path) -> None:
    """The Parquet file of a release with another name."""
    table = release / "tables/sex.parquet"
    content = pq.read_table(table)
    pq.write_table(content.replace_schema_metadata({**content.schema.metadata, b"release": b"other"}), table)
    write(release, read(release))


def linked_folder(release: Path) -> None:
    (release / "more").symlink_to(release / "tables")


def tampered_file(release: Path) -> None:
    table = release / "tables/sex.csv"
    table.write_text(table.read_text().replace("1", "2", 1))


def with_another_table(release: Path) -> None:
    """A table that no plan has, listed as the others are, with everything that explains the release made anew."""
    manifest = read(release)
    for file in [each for each in manifest["files"] if each["path"].startswith(("tables/sex.", "cells/sex."))]:
        another = file | {"path": file["path"].replace("sex", "another")}
        shutil.copy(release / file["path"], release / another["path"])
        manifest["files"].append(another)
    remake(release, manifest)


def listed_otherwise(forge: Callable[[Manifest], None], *endings: str) -> Callable[[Path], None]:
    """What the manifest lists of a table in these formats is changed; the rest follows from the manifest."""

    def change(release: Path) -> None:
        manifest = read(release)
        for file in manifest["files"]:
            if file["path"] in [f"tables/sex.{ending}" for ending in endings]:
                forge(file)
        codebook = MECHANISMS["tables"].explain.codebook(manifest)
        assert codebook is not None
        for name, content in companions(SealedRelease(release, manifest), codebook).items():
            (release / name).write_bytes(content)
        for file in manifest["files"]:
            path = release / file["path"]
            file |= {"sha256": sha256_of(path), "bytes": path.stat().st_size}
        (release / "manifest.json").write_text(manifest_text(manifest), encoding="utf-8")

    return change


def one_row_more(file: Manifest) -> None:
    file["rows"] += 1


def called_exact(file: Manifest) -> None:
    file["columns"] |= {"count": "count, exact"}


EPSILONS = {"delta": "1/10000000000", "bun_steinke": 1.0, "canonne_kamath_steinke": 1.0, "gaussian_limit": 1.0}

FORGERIES: dict[str, tuple[Callable[[Path], object], bool]] = {
    # What is done, and whether the release alone shows it.
    "a count changed": (tampered_file, True),
    "a count and its hash, by one": (added(1), False),
    "a count and its hash, by ten thousand": (added(10_000), True),
    "margins made consistent": (consistent_margins, True),
    "another title, everywhere": (said("title", value="A larger release"), False),
    "a certificate that says less": (changed_page("1/2", "1/4000"), True),
    "the certificate of another release": (page_of_another, True),
    "no certificate": (without_page, True),
    "one page more": (with_page, True),
    "one table more": (with_another_table, True),
    "a smaller loss": (said("privacy", "loss", "rho", value="1/4000"), True),
    "a smaller epsilon": (said("privacy", "epsilon_at_delta", value=EPSILONS), True),
    "other words": (said("privacy", "in_words", value=["Nothing can be learned of anybody."]), True),
    "a smaller loss by attribute": (said("privacy", "by_attribute", value={}), True),
    "a smaller loss of a move": (said("privacy", "by_move_within", value={}), True),
    "another origin of the key": (said("noise", "key", value="from a dice"), True),
    "another neighbour relation": (said("privacy", "neighbours", value="add-remove"), True),
    "a later version": (said("confide", value="99.0"), False),
    "an entry more in the manifest": (said("note", value="rho is 1/4000"), True),
    "a whole plan that is a thousand times cheaper": (cheaper(1000), True),
    "a whole plan that is an eighth cheaper": (cheaper(Fraction(9, 8)), False),
    "other noise margins": (other_margins, True),
    "smaller variances": (other_variances, True),
    "labels exchanged": (exchanged("sex_label"), True),
    "codes exchanged": (exchanged("sex"), True),
    "cells that are totals": (totals_as_cells, True),
    "other cells in the file of cells alone": (other_cells, True),
    "a codebook that says otherwise": (other_codebook, True),
    "a plan that measures nothing": (nothing_measured, True),
    "the table of another release": (table_of_another, True),
    "a table that is a link": (table_elsewhere, True),
    "more rows than there are": (listed_otherwise(one_row_more, "parquet", "csv"), True),
    "more rows in one of the formats": (listed_otherwise(one_row_more, "csv"), True),
    "figures called exact in one of the formats": (listed_otherwise(called_exact, "csv"), True),
    "a file more": (lambda release: (release / "more.csv").write_text("1"), True),
    "a hidden file": (lambda release: (release / "tables/.more").write_text("1"), True),
    "an empty folder": (lambda release: (release / "more").mkdir(), True),
    "a linked folder": (linked_folder, True),
    "a key twice": (key_twice, True),
    "another form of the same manifest": (lambda release: _compact(release), True),
    "entries in another order": (lambda release: _turned(release), True),
}


def _compact(release: Path) -> None:
    (release / "manifest.json").write_text(json.dumps(read(release)))


def _turned(release: Path) -> None:
    entries = list(read(release).items())
    (release / "manifest.json").write_text(manifest_text(dict([*entries[1:], entries[0]])), encoding="utf-8")


def agrees(release: Path, ledger: Path | None = None) -> bool:
    try:
        return confide.verify(release, ledger=ledger).ok
    except ConfideError:
        return False


@pytest.fixture(scope="module")
def sealed(population_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with a sealed release, with margins enough to tell their noise."""
    folder = Path(shutil.copytree(population_folder, tmp_path_factory.mktemp("forged") / "project"))
    (folder / "spec.toml").write_text(SPEC.replace('variables = ["sex"]', 'variables = ["sex", "age:broad"]'))
    confide.Ledger.open_new(
        folder / "people.ledger", data_set="people", definition="zcdp", neighbours="change-one", budget=1
    )
    confide.run(folder / "spec.toml")
    return folder


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_release_is_found(sealed: Path, tmp_path: Path, name: str) -> None:
    release = Path(shutil.copytree(sealed / "small/release", tmp_path / "release"))
    forge, caught = FORGERIES[name]
    forge(release)
    assert agrees(release) != caught
    assert not agrees(release, sealed / "people.ledger")


def test_what_the_forger_writes_is_otherwise_as_confide_writes_it(sealed: Path, tmp_path: Path) -> None:
    """The forgeries above are found for what they forge, and not for how they are written down."""
    release = Path(shutil.copytree(sealed / "small/release", tmp_path / "release"))
    before = (release / "manifest.json").read_bytes()
    restate(release, read(release))
    assert (release / "manifest.json").read_bytes() == before
    assert agrees(release, sealed / "people.ledger")
    put_plan(release, read(release), read_plan(read(release)["plan"]))
    assert agrees(release)
    change_table(release, "sex", lambda table: table)
    assert agrees(release)


def test_it_says_consistent_alone_and_as_sealed_with_the_ledger(sealed_project: Path) -> None:
    release = sealed_project / "small/release"
    alone, asked = confide.verify(release), confide.verify(release, ledger=sealed_project / "people.ledger")
    assert (alone.verdict, alone.as_dict()["vouched_by"]) == ("consistent with itself", [])
    assert (asked.verdict, asked.as_dict()["vouched_by"]) == ("as sealed", ["ledger"])


def test_an_older_release_is_held_to_its_numbers_and_not_to_our_words(
    sealed_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version words promises and pages anew: what an older one has sealed stays as it is."""
    release = sealed_project / "small/release"
    monkeypatch.setattr("confide.releases.verify.__version__", "99.0")
    original = confide.releases.folder.statements
    monkeypatch.setattr(
        "confide.releases.folder.statements",
        lambda *args, **named: [replace(one, text="Otherwise.") for one in original(*args, **named)],
    )
    monkeypatch.setattr("confide.mechanisms.tables.mechanism.certificate", lambda *_: "<p>Another page</p>")
    verification = confide.verify(release)
    assert verification.ok
    assert any("not compared" in check.detail for check in verification.checks)
    forged = Path(shutil.copytree(release, tmp_path / "release"))
    manifest = read(forged)
    manifest["privacy"]["epsilon_at_delta"]["canonne_kamath_steinke"] = 0.1
    write(forged, manifest)
    assert not agrees(forged)


def test_a_budget_that_is_not_zcdp_is_restated_too(sealed_copy: Path) -> None:
    for definition, extra in (("pure", {}), ("approximate", {"delta": "1e-6"})):
        text = (sealed_copy / "spec.toml").read_text().replace('name = "small"', f'name = "{definition}"')
        law = f'definition = "{definition}"\n' + "".join(f'{k} = "{v}"\n' for k, v in extra.items())
        text = text.replace('ledger = "people.ledger"', f'ledger = "{definition}.ledger"\n{law}')
        (sealed_copy / f"{definition}.toml").write_text(text)
        confide.Ledger.open_new(
            sealed_copy / f"{definition}.ledger",
            data_set="people",
            definition=definition,
            neighbours="change-one",
            budget=Fraction(1),
            **extra,
        )
        verification = confide.verify(confide.run(sealed_copy / f"{definition}.toml", accept_ledger=True).release)
        assert verification.ok, verification.findings


def test_plan_hash_and_stamp_are_looked_at_by_themselves(sealed_project: Path) -> None:
    """What is made anew from the plan would differ too; neither check leans on the other."""
    manifest = json.loads((sealed_project / "small/release/manifest.json").read_text())
    plan, folder = read_plan(manifest["plan"]), sealed_project / "small/release"

    def wrong(**changes: Any) -> list[str]:
        return [check.name for check in _plan(SealedRelease(folder, manifest | changes)) if not check.ok]

    assert wrong() == []
    assert wrong(plan_hash="ab" * 32) == ["plan hash"]
    assert wrong(stamp="NOT FOR RELEASE") == ["stamp"]
    assert wrong(noise=manifest["noise"] | {"key": "chosen"}) == ["stamp"]
    nothing_promised = manifest["privacy"] | {"loss": None}
    silent = replace(plan, has_loss=False)
    values = manifest | {"plan": silent.as_dict(), "plan_hash": silent.hash, "privacy": nothing_promised}
    checks = {check.name: check.ok for check in _plan(SealedRelease(folder, values))}
    assert checks == {"plan hash": True, "no promise of differential privacy": False, "stamp": True}
    empty = replace(silent, measures=())
    values |= {"plan": empty.as_dict(), "plan_hash": empty.hash}
    assert all(check.ok for check in _plan(SealedRelease(folder, values)))


def test_no_file_outside_of_a_release_is_read(sealed_project: Path, tmp_path: Path) -> None:
    """A manifest of somebody else's must not make verify tell whether a file of this machine has a certain content."""
    release = Path(shutil.copytree(sealed_project / "small/release", tmp_path / "release"))
    (tmp_path / "outside.txt").write_text("secret")
    for path in ("../outside.txt", str(tmp_path / "outside.txt"), "tables/../../outside.txt"):
        listed = {"files": [{"path": path, "sha256": sha256_of(tmp_path / "outside.txt"), "bytes": 6}]}
        assert list(SealedRelease(release, listed).file_states()) == [(path, "the file is missing")]
