"""``confide infer replicate``: a TopDown release made again and again from its own records, to learn what its figures
are off by.

The release's records are the input: they are public, so that this is post-processing, costs nothing and asks no
ledger. Strategy, spine, frame, invariants and noise are those of its plan; the keys follow from the release and the
number of the replicate, so that anybody gets the same replicates. Nothing else can be the input, and everything that
comes out is stamped.

Errors of replicates are those of a release whose truth is the release: a little smoother and sparser than the truth.
Where this matters most, in areas off the spine and in the smallest areas, a factor is found with people of known truth:
*made-up people*, released in the same way (:mod:`confide.mechanisms.topdown.made_up`). What the margins
cover was measured against the truth: ``docs/concepts/replicates.md``. The method is that of the Census Bureau's
Approximate Monte Carlo.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from confide.answers import AnswerPart, Said, ShownTable, Tone, TypedAnswer
from confide.arrays import Floats, Integers
from confide.engines import LocalEngine, write_parquet
from confide.errors import Finding, InputError, ParameterError, Place, ReleaseError
from confide.file_system import private_folder, write_text
from confide.inference import pooled_errors
from confide.mechanisms import MECHANISMS
from confide.mechanisms.topdown.made_up import counted, exchanged_homes, release_of_people, resized_blocks, shrinkage
from confide.mechanisms.topdown.problem import TopDownProblem
from confide.mechanisms.topdown.released_problem import ReleasedPlan, released_plan
from confide.noise import SAMPLER, ReleaseKey
from confide.releases import NoiseSource, SealedRelease
from confide.releases.run import DEFAULT_MEMORY
from confide.releases.verify import verify
from confide.releases.workspace import STAMP, Progress, Silent, Workspace, no_room_is_an_error, one_process

REPLICATES, CALIBRATION = 25, 5
MOST = 1_000
REPLICATE = "a replicate of a release, made with a public key from its records"
MARK, ANSWER, MARGINS, RECORDS = "NOT-FOR-RELEASE.txt", "replicates.json", "margins", "records"
STAMPED = ".NOT-FOR-RELEASE"
MIXED, MIXED_RELEASE = "made-up-mixed-people", "made-up-mixed-release"
MADE_UP = "made-up-people"
FORM = "confide/replicates/v1"


def replicate(
    release: str | Path,
    out: str | Path,
    *,
    replicates: int = REPLICATES,
    calibration: int = CALIBRATION,
    processes: int | None = None,
    memory: str = DEFAULT_MEMORY,
    progress: Progress | None = None,
) -> Replicates:
    """Makes replicates of a TopDown release from its own records, and pools their errors. Nothing is spent.

    After an interruption the same call goes on; asked for more replicates, it adds them.

    Args:
        release: A sealed release, or the folder of its run. Nothing else can be replicated.
        out: The folder of the replicates: a new one, or that of replicates of the same release.
        replicates: How many.
        calibration: How many releases of made-up people are made for the factor off the spine; 0 for none, which
            leaves the factor at 1.
        processes: How many processes to use; by default one for each core. The replicates are the same for any.
        memory: The most memory to use, such as ``4GiB``.
        progress: Receives stages; none by default.

    Returns:
        The replicates, their pooled errors and the factors.

    >>> import confide
    >>> made = confide.replicate(topdown, tmp_path / "replicates", replicates=2, calibration=0)
    >>> made.number
    2
    """
    for option, number, least in (("--replicates", replicates, 2), ("--calibration", calibration, 0)):
        if not least <= number <= MOST or number == 1:
            raise ParameterError(
                "replicates",
                where=Place(path=option),
                number=number,
                most=MOST,
                is_calibration=option == "--calibration",
            )
    source = ReplicatedRelease.open(Path(release))
    shown, folder = progress or Silent(), Path(out)
    with no_room_is_an_error(folder):
        _claim(folder, source)
        with one_process(folder / "lock", folder):
            work = folder / "work"
            with LocalEngine(work / "scratch", processes=processes, memory=memory) as engine:
                maker = _Maker(source, folder, engine)
                maker.make_all(replicates, calibration, shown)
            shutil.rmtree(work, ignore_errors=True)
            return _answer(folder, source, replicates, calibration, shown)


@dataclass(frozen=True, eq=False)
class ReplicatedRelease:
    """A release as its replicates need it: verified, with strategy and spine made again from public files."""

    released: ReleasedPlan

    @classmethod
    def open(cls, path: Path) -> ReplicatedRelease:
        """The release in a folder, or of the run in it. Raises if it is not as it was sealed, or of another kind."""
        release = SealedRelease.of(path)
        verified = verify(release, lambda name: MECHANISMS[name])
        if not verified.ok:
            raise ReleaseError(verified.findings)
        try:
            return cls(released_plan(release))
        except ReleaseError as error:
            raise ReleaseError(_not_replicated(finding) for finding in error.findings) from None

    @property
    def problem(self) -> TopDownProblem:
        """What is released again."""
        return self.released.problem

    @cached_property
    def histogram(self) -> pa.Table:
        """The records, counted: ``unit`` (block of the spine), ``cell``, ``n``."""
        row, cell = self.released.records()
        block = self.problem.spine.block_of_row[row]
        return counted(block * self.problem.cells + cell, self.problem.cells)

    def key(self, purpose: str) -> ReleaseKey:
        """A public key, another one for each purpose: stamped wherever it is used."""
        text = f"{FORM}/{self.released.manifest_sha256}/{purpose}"
        return ReleaseKey.choose(hashlib.sha256(text.encode()).hexdigest())


@dataclass(frozen=True, eq=False)
class _Maker:
    """Runs of TopDown into files of the folder; what an earlier try has finished stays."""

    source: ReplicatedRelease
    folder: Path
    engine: LocalEngine

    def make_all(self, replicates: int, calibration: int, progress: Progress) -> None:
        own = self.source.histogram
        with progress.stage("Making replicates", replicates) as advance:
            for number in range(1, replicates + 1):
                self.run(replicate_name(number), lambda: own)
                advance(1)
        if not calibration:
            return
        with progress.stage("Releasing made-up people", 1 + calibration) as advance:
            problem, seed = self.source.problem, int(self.source.released.manifest_sha256[:16], 16)
            mixed = self.write(MIXED, lambda: exchanged_homes(problem, own, seed))
            shrunk = self.run(MIXED_RELEASE, lambda: pq.read_table(mixed))
            advance(1)

            def people() -> pa.Table:
                """As uneven as people are whose release is as uneven as ours."""
                factor = shrinkage(problem, pq.read_table(mixed), pq.read_table(shrunk))
                return exchanged_homes(problem, resized_blocks(problem, own, 1 / factor, seed), seed)

            uneven = self.write(MADE_UP, people)
            for number in range(1, calibration + 1):
                self.run(calibration_name(number), lambda: pq.read_table(uneven))
                advance(1)

    def write(self, name: str, make: Callable[[], pa.Table]) -> Path:
        """A stamped table of counts, made unless it is there and of this release."""
        path, own = records_file(self.folder, name), self._metadata(name)
        if _metadata_of(path) != own:
            private_folder(path.parent)
            write_parquet(make().replace_schema_metadata(own), path)
        return path

    def run(self, name: str, people: Callable[[], pa.Table]) -> Path:
        """One run of TopDown on ``people`` with the noise of the plan, under a key of its own."""
        return self.write(name, lambda: self._descend(name, people()))

    def _descend(self, name: str, people: pa.Table) -> pa.Table:
        problem, plan = self.source.problem, self.source.released.plan
        # The noise belongs to this release and this purpose, and to no confidential records.
        noise = NoiseSource(self.source.key(name), self.source.released.manifest_sha256, plan.hash, "replicate")
        return release_of_people(problem, plan, people, noise, self.engine, Workspace(self.folder / "work" / name))

    def _metadata(self, name: str) -> dict[str, str]:
        return {
            "stamp": STAMP,
            "what": REPLICATE,
            "form": FORM,
            "sampler": SAMPLER,
            "name": name,
            "release": str(self.source.released.manifest["release"]),
            "manifest_sha256": self.source.released.manifest_sha256,
        }


def replicate_name(number: int) -> str:
    """What a replicate is called."""
    return f"replicate-{number:04}"


def calibration_name(number: int) -> str:
    """What a release of the made-up people is called."""
    return f"made-up-release-{number:04}"


def records_file(folder: Path, name: str) -> Path:
    """Where the counted records of a replicate are."""
    return folder / RECORDS / f"{name}{STAMPED}.parquet"


def _metadata_of(path: Path) -> dict[str, str] | None:
    """What a file says of itself; none if it is not there or cannot be read to its end."""
    try:
        metadata = pq.read_table(path).schema.metadata or {}
    except (OSError, pa.ArrowException):
        return None
    return {key.decode(): value.decode() for key, value in metadata.items()}


SHOWN_QUERY = "total"
"""The query that is described; all of them are in the file."""


@dataclass(frozen=True, eq=False)
class Replicates(TypedAnswer):
    """Replicates of a release, their pooled errors, and the factors."""

    folder: Path
    source: ReplicatedRelease
    number: int
    calibration: int
    rows: Sequence[Mapping[str, Any]]
    """Pooled errors, one row for each kind of area, query and size class: the columns of
    :data:`confide.inference.pooled_errors.SCHEMA`."""
    factors: Sequence[pooled_errors.CalibratedFactor]

    @classmethod
    def open(cls, folder: str | Path, release: str | Path) -> Replicates:
        """Replicates that were made before, of this release: nothing is made."""
        return cls.open_with(folder, ReplicatedRelease.open(Path(release)))

    @classmethod
    def open_with(cls, folder: str | Path, source: ReplicatedRelease) -> Replicates:
        """The same for a release that was opened before."""
        where = Path(folder)
        stated = _stated(where)
        if (
            stated is None
            or stated.get("manifest_sha256") != source.released.manifest_sha256
            or "margins" not in stated
        ):
            raise _of_another(where)
        factors = [
            pooled_errors.CalibratedFactor(
                row["areas_of"], row["query"], row["areas"], row["ratio"], row["standard_error"]
            )
            for row in stated["factors"]
        ]
        rows = pq.read_table(where / stated["margins"]).to_pylist()
        return cls(where, source, stated["replicates"], stated["calibration"], rows, factors)

    def histograms(self) -> Iterator[Any]:
        """The histograms of each replicate, blocks of the spine x cells, sparse."""
        for number in range(1, self.number + 1):
            yield sparse_counts(self.source.problem, records_file(self.folder, replicate_name(number)))

    def errors_of(self, kind: pooled_errors.AreaKind, query: str, matrix: Any) -> list[dict[str, Any]]:
        """Pooled errors of areas or queries that are not among the rows, in the same way.

        Args:
            kind: The areas.
            query: What the query is called.
            matrix: Cells of the histogram x cells of the query, sparse.
        """
        possible = pooled_errors.PossibleCells(self.source.problem).number(kind, matrix)

        def tally(truth: Any, releases: Iterator[Any]) -> pooled_errors.ReplicateTally:
            result = pooled_errors.ReplicateTally(kind.members @ truth @ matrix, possible)
            for histograms in releases:
                result.add(kind.members @ histograms @ matrix)
            return result

        made_up = None if not self.calibration else tally(*self._made_up())
        own = counts_matrix(self.source.problem, self.source.histogram)
        rows = tally(own, self.histograms()).rows(made_up)
        if kind.on_spine:
            return [row | {"factor": 1.0} for row in rows]
        by_query = {row.query: row.factor for row in self.factors}
        otherwise = by_query.get(query, max(by_query.values(), default=1.0))
        return [row | {"factor": pooled_errors.class_factor(row, otherwise)} for row in rows]

    def _made_up(self) -> tuple[Any, Iterator[Any]]:
        """Made-up people, and their releases."""
        problem = self.source.problem
        numbers = range(1, self.calibration + 1)
        files = (records_file(self.folder, calibration_name(number)) for number in numbers)
        return sparse_counts(problem, records_file(self.folder, MADE_UP)), (
            sparse_counts(problem, file) for file in files
        )

    def statistics(self, kind: str, query: str) -> ReplicateStatistics:
        """Figures of the release with mean, mean squared error and standard deviation of replicates, cell by cell.

        Args:
            kind: A level or a kind of area of the frame.
            query: A query of the strategy.
        """
        problem = self.source.problem
        kinds = {area.name: area for area in pooled_errors.area_kinds(problem)}
        for option, name, names in (("kind", kind, list(kinds)), ("query", query, problem.strategy.measured)):
            if name not in names:
                raise ParameterError("unknown-name", found=name, option=option, name=name, names=", ".join(names))
        members, matrix = kinds[kind].members, pooled_errors.query_matrix(problem, query)
        released = (members @ counts_matrix(problem, self.source.histogram) @ matrix).toarray()
        total, squares, about = (np.zeros(released.shape) for _ in range(3))
        for histograms in self.histograms():
            figures = (members @ histograms @ matrix).toarray()
            total += figures
            about += (figures - released).astype(np.float64) ** 2
            squares += figures.astype(np.float64) ** 2
        mean = total / self.number
        variance = np.maximum(squares - self.number * mean**2, 0.0) / (self.number - 1)
        return ReplicateStatistics(kinds[kind].codes, released, mean, about / self.number, np.sqrt(variance))

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        manifest = self.source.released.manifest
        return {
            "ok": True,
            "stamp": STAMP,
            "what": REPLICATE,
            "folder": str(self.folder),
            "release": manifest["release"],
            "manifest_sha256": self.source.released.manifest_sha256,
            "plan_hash": manifest["plan_hash"],
            "sampler": SAMPLER,
            "replicates": self.number,
            "calibration": self.calibration,
            "charged": None,
            "factors": [row.as_dict() for row in self.factors],
            "margins": f"{MARGINS}{STAMPED}.parquet",
            "errors": [dict(row) for row in self.rows],
        }

    def described(self) -> Iterator[AnswerPart]:
        """The self as tables."""
        manifest = self.source.released.manifest
        yield (
            f"\n{self.number} replicates of {manifest['release']}, from its own records. Nothing was spent, and no "
            "confidential record was read.\n"
        )
        queries = list(dict.fromkeys(row["query"] for row in self.rows))
        query = SHOWN_QUERY if SHOWN_QUERY in queries else queries[0]
        rows = [
            (
                row["kind"],
                "on it" if row["on_spine"] else "off it",
                row["size"],
                f"{row['cells']:,}",
                "" if row["mse"] is None else f"{row['mse'] ** 0.5:,.1f}",
                *(
                    "" if row[f"below_{q}"] is None else f"−{row[f'below_{q}']:,} +{row[f'above_{q}']:,}"
                    for q in (90, 95)
                ),
                f"{row['factor']:.2f}",
            )
            for row in self.rows
            if row["query"] == query
        ]
        columns = ["areas", "spine", "figure ", "figures ", "rmse ", "90 % ", "95 % ", "factor "]
        yield ShownTable(
            columns, rows, title=f"Errors of figures of {query!r}, by kind of area and by what the figure shows"
        )
        if self.factors:
            listed = [
                (
                    row.areas_of,
                    row.query,
                    f"{row.areas:,}",
                    f"{row.ratio:.2f} ± {row.standard_error:.2f}",
                    f"{row.factor:.2f}",
                )
                for row in self.factors
            ]
            yield ShownTable(
                ["areas", "query", "number ", "realised / replicated ", "factor "],
                listed,
                title="Made-up people, whose truth is known: how much larger errors are than replicates say",
            )
        yield (
            "A margin covers the error of the noise and of the estimation, among figures of that size. It does not "
            "cover errors of the census itself."
        )
        yield f"all queries  {self.folder / str(self.as_dict()['margins'])}"
        yield Said("NOT FOR RELEASE", ": replicates of a release", Tone.BAD, aside=True)


def _span(row: Mapping[str, Any], part: int) -> str:
    below, above = row[f"below_{part}"], row[f"above_{part}"]
    return "" if below is None else f"−{below:,} +{above:,}"


@dataclass(frozen=True, eq=False)
class ReplicateStatistics:
    """Areas x cells of a query: figures of the release, and what replicates made of them."""

    codes: tuple[str, ...]
    released: Integers
    mean: Floats
    mse: Floats
    """About the release."""
    sd: Floats


def counts_matrix(problem: TopDownProblem, rows: pa.Table) -> Any:
    """Counts as a sparse matrix, blocks of the spine x cells."""
    unit, cell, count = (rows.column(name).to_numpy() for name in ("unit", "cell", "n"))
    return sp.csr_matrix((count, (unit, cell)), shape=(len(problem.spine.rows), problem.cells))


def sparse_counts(problem: TopDownProblem, file: Path) -> Any:
    """The same from a file."""
    return counts_matrix(problem, pq.read_table(file))


def _answer(
    folder: Path, source: ReplicatedRelease, replicates: int, calibration: int, progress: Progress
) -> Replicates:
    """The pooled errors of what lies in the folder, written beside it."""
    problem = source.problem

    def listed(names: Sequence[str]) -> Iterator[Any]:
        for name in names:
            yield sparse_counts(problem, records_file(folder, name))

    with progress.stage("Pooling errors", 2) as advance:
        own = counts_matrix(problem, source.histogram)
        errors = pooled_errors.tallied(
            problem, own, listed([replicate_name(number + 1) for number in range(replicates)])
        )
        advance(1)
        made_up: pooled_errors.Tallies | None = None
        factors: list[pooled_errors.CalibratedFactor] = []
        if calibration:
            people = sparse_counts(problem, records_file(folder, MADE_UP))
            names = [calibration_name(number + 1) for number in range(calibration)]
            made_up = pooled_errors.tallied(problem, people, listed(names))
            factors = pooled_errors.calibrated_factors(
                problem, pooled_errors.pooled_rows(problem, errors), people, listed(names)
            )
        rows = pooled_errors.pooled_rows(problem, errors, made_up)
        advance(1)
    factor_of: dict[tuple[str | None, str], float] = {(row.areas_of, row.query): row.factor for row in factors}
    groups = {kind.name: pooled_errors.calibrated_with(problem, kind) for kind in pooled_errors.area_kinds(problem)}
    stated = [
        row | {"factor": pooled_errors.class_factor(row, factor_of.get((groups[row["kind"]], row["query"]), 1.0))}
        if groups[row["kind"]]
        else row | {"factor": 1.0}
        for row in rows
    ]
    answer = Replicates(folder, source, replicates, calibration, stated, factors)
    values = answer.as_dict()
    table = pooled_errors.rows_table(stated).replace_schema_metadata(
        {"stamp": STAMP, "manifest_sha256": source.released.manifest_sha256}
    )
    write_parquet(table, folder / str(values["margins"]))
    brief = {key: value for key, value in values.items() if key not in ("errors", "folder")}
    write_text(folder / ANSWER, json.dumps(_source(source) | brief, indent=2) + "\n")
    return answer


def _source(source: ReplicatedRelease) -> dict[str, Any]:
    return {"form": FORM, "stamp": STAMP, "what": REPLICATE, "manifest_sha256": source.released.manifest_sha256}


def _stated(folder: Path) -> dict[str, Any] | None:
    """What a folder of replicates says of itself; none where there is nothing."""
    try:
        stated = json.loads((folder / ANSWER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return stated if isinstance(stated, dict) and stated.get("form") == FORM else None


def _claim(folder: Path, source: ReplicatedRelease) -> None:
    """Makes the folder that of replicates of this release; one that is anything else stays as it is."""
    stated = _stated(folder)
    if stated is None and folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise _of_another(folder)
    if stated is not None and stated.get("manifest_sha256") != source.released.manifest_sha256:
        raise _of_another(folder)
    private_folder(folder)
    if stated is None:
        write_text(folder / ANSWER, json.dumps(_source(source), indent=2) + "\n")
    write_text(folder / MARK, f"{STAMP}: {REPLICATE}.\n")


def _of_another(folder: Path) -> InputError:
    return InputError("not-these-replicates", where=Place(file=str(folder)), exists=folder.exists())


def _not_replicated(finding: Finding) -> Finding:
    return replace(finding, code="not-replicated")
