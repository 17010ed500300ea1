"""Releases without a folder: a table in memory goes in, protected counts come out.

For studies, notebooks and programs that have their own way to publish. The privacy is that of a release: the plan is
priced before a value is looked at, the ledger is charged before the first draw, and the noise is bound to the records
and to the question. What a folder adds, a certificate, a manifest and a way to verify and replay, is not there.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import prod
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from confide.answers import AnswerPart, ShownTable, TypedAnswer
from confide.arrays import Integers
from confide.documents import load_schema
from confide.errors import CONFIDENTIAL, InputError, ParameterError, Place
from confide.exact import Exact, exact
from confide.mechanisms.cellkey.programme import shuffled
from confide.mechanisms.cellkey.spec import CellKeyPart
from confide.mechanisms.suppression import Dimension, flat, suppress_tables, with_totals
from confide.mechanisms.swapping import SwapSettings, load_settings, swap_records
from confide.noise import ReleaseKey, check_width, perturb
from confide.noise.ptables import PTable, count_settings, generate
from confide.privacy import ZCDP, Definition, Loss, Neighbours, PrivacyUnit, PureDP, calibrate
from confide.releases import NoiseSource, Plan, PlannedMeasurement
from confide.releases.ledger import Account, Ledger
from confide.releases.tabular import masked
from confide.schema import Attribute, Level, Query, Schema, as_read
from confide.version import __version__

MECHANISM = "tabulate"
EVERYWHERE = "all"
"""The one level of a plan without geography."""
MARGIN_PROBABILITY = "0.95"
TOTAL_LABEL = "total"
MOST_CELLS = 10_000_000
MOST_ROWS_SHOWN = 20


@dataclass(frozen=True)
class Tabulation(TypedAnswer):
    """Noisy counts, what they cost, and how far they may be off."""

    counts: pa.Table
    """A row for each cell: the variables, ``count``, and ``margin``, the 95 % noise margin (margin of error) of it."""
    loss: Loss
    """What was spent: composed from the measurements of the plan."""
    plan: Plan
    account: Account | None
    """The account of the ledger afterwards; none without a ledger."""
    stamped: bool = False
    """Whether it was made with a chosen key, and protects nobody."""

    @property
    def margin(self) -> int:
        """The widest 95 % noise margin: a count is at most so far off with a probability of 95 %."""
        return max(measurement.law.noise_margin(MARGIN_PROBABILITY) for measurement in self.plan.measures)

    def to_pandas(self) -> Any:
        """The counts as a pandas data frame, where pandas is installed."""
        return self.counts.to_pandas()

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {
            "loss": self.loss.as_dict(),
            "neighbours": self.plan.neighbours.value,
            "margin": self.margin,
            "probability": MARGIN_PROBABILITY,
            "left": None if self.account is None else str(self.account.left),
            "plan_hash": self.plan.hash,
            "stamp": "NOT FOR RELEASE" if self.stamped else None,
            "counts": self.counts.to_pylist(),
        }

    def described(self) -> Iterator[AnswerPart]:
        """The counts with their margins, and what they cost."""
        names = self.counts.column_names[:-2]
        rows = self.counts.slice(0, MOST_ROWS_SHOWN).to_pylist()
        yield ShownTable([*names, "count "], [(*(str(row[name]) for name in names), _with_margin(row)) for row in rows])
        yield from _left_out(self.counts)
        yield ""
        yield from self._sentences()

    def _sentences(self) -> list[str]:
        sentences = [
            f"Cost: {self.loss} ({self.plan.neighbours.value}). Each count is within its margin with a probability of "
            "95 %; the margin is of the noise alone."
        ]
        if self.account is not None:
            sentences.append(f"The ledger of {self.account.data_set!r} has {self.account.left} left.")
        if self.stamped:
            sentences.append("NOT FOR RELEASE: made with a chosen key.")
        return sentences


def tabulate(
    people: Any,
    by: Mapping[str, Sequence[Any]] | Sequence[str],
    *,
    rho: Exact | None = None,
    epsilon: Exact | None = None,
    neighbours: Literal["add-remove", "change-one"] | None = None,
    margins: Literal["none", "all"] = "none",
    schema: Schema | str | Path | None = None,
    ledger: str | Path | None = None,
    accept_ledger: bool = False,
    name: str = "tabulation",
    insecure_key: str | None = None,
) -> Tabulation:
    """Counts people by some variables, with noise of an exact price.

    Every cell of the cross-classification is published, empty or not: which cells there are follows from ``by`` alone
    and never from the data. The noise is discrete Gaussian for ``rho`` (zCDP) and two-sided geometric for ``epsilon``
    (pure differential privacy); each person counts in one cell of a table.

    Args:
        people: One row a person: a pandas or polars data frame, an Arrow table, or anything that speaks Arrow's
            C stream protocol.
        by: For each variable all values that it can take. With ``schema``, names of its attributes and recodes.
        rho: The budget in zCDP: an exact number such as ``"1/2"``.
        epsilon: The budget in pure differential privacy, in place of ``rho``.
        neighbours: What is hidden: that a person is in the data (``add-remove``), or what a person's row says while
            the number of rows is known (``change-one``). By default as the ledger says, or ``add-remove``.
        margins: ``all`` measures every margin of the table too, the total included, for equal parts of the budget.
        schema: Where the values are declared: a :class:`confide.schema.Schema`, the path of a schema file, or the name
            of one that ships.
        ledger: The ledger of the data set. It is charged before the first draw, and refuses what does not fit.
        accept_ledger: Charges the ledger although it was charged for other tables of people and never for this one:
            these are the same people, corrected, selected or with other columns.
        name: What the ledger calls the release.
        insecure_key: 64 hexadecimal digits for a trial that can be repeated; its noise protects nobody.

    Returns:
        The counts with their margins, the loss, the plan, and the account afterwards.

    >>> import pyarrow as pa
    >>> people = pa.table({"area": ["N", "N", "S"], "sex": ["f", "m", "f"]})
    >>> answer = tabulate(people, by={"area": ["N", "S"], "sex": ["f", "m"]}, rho="1/2")
    >>> answer.counts.num_rows, str(answer.loss), answer.margin
    (4, 'zcdp rho = 1/2', 2)
    """
    table = _arrow(people)
    query = _query(by, schema)
    account = None if ledger is None else Ledger(ledger).account()
    by_default = "add-remove" if account is None else account.neighbours
    plan = _plan(query, rho, epsilon, Neighbours(neighbours or by_default), margins)
    if account is not None:
        plan = plan if account.unit == "record" else replace(plan, unit=PrivacyUnit.PERSON)
        _require_alike(plan, account)
    loss = plan.loss
    cells = _cells(table, query)
    fingerprint = hashlib.sha256(b"confide/in-memory/v1" + cells.tobytes()).hexdigest()
    key = ReleaseKey.from_system() if insecure_key is None else ReleaseKey.choose(insecure_key)
    noise = NoiseSource(key, fingerprint, plan.hash, MECHANISM)
    labels = _labels(query, plan)
    if ledger is None:
        return Tabulation(_table(labels, _draw(query, plan, cells, noise)), loss, plan, None, key.chosen)
    book, run_id = Ledger(ledger), secrets.token_hex(16)
    amount, delta = (*loss.parameters().values(), Fraction(0))[:2]
    book.reserve(
        run_id,
        release=name,
        plan_hash=plan.hash,
        records_fingerprint=_fingerprint(table),
        cost=amount,
        delta=delta,
        unit=plan.unit.value,
        accept_records=accept_ledger,
    )
    # From here on the charge stands: the ledger knows before the first draw.
    book.mark_measured(run_id, key.commitment)
    counts = _table(labels, _draw(query, plan, cells, noise))
    book.mark_sealed(run_id, _digest(counts, plan))
    return Tabulation(counts, loss, plan, book.account(), key.chosen)


def open_ledger(
    path: str | Path,
    *,
    data_set: str,
    budget: Exact,
    definition: Literal["zcdp", "pure", "approximate"] = "zcdp",
    neighbours: Literal["add-remove", "change-one"] = "add-remove",
    delta: Exact = "0",
    unit: Literal["record", "person", "household"] = "record",
    note: str = "",
) -> Ledger:
    """Opens the ledger of a data set, once, with its whole budget. A ledger that is there already is never replaced.

    Args:
        path: The ledger file of the data set, which belongs with the data.
        data_set: The name of the data set.
        budget: The total budget of the data set, which cannot be raised later: an exact number.
        definition: The kind of privacy loss that the budget counts.
        neighbours: Which data sets the promise compares: one record changed, or one added or removed.
        delta: With approximate: the total delta of the data set.
        unit: What the account is kept in. With person, a release of households is charged what it costs one person.
        note: Who decided on the budget, and why.

    Returns:
        The ledger.

    >>> import confide
    >>> ledger = confide.open_ledger(tmp_path / "census.ledger", data_set="census", budget="5/2")
    >>> str(ledger.account().left)
    '5/2'
    """
    return Ledger.open_new(
        path,
        data_set=data_set,
        definition=definition,
        neighbours=neighbours,
        budget=budget,
        delta=delta,
        unit=unit,
        note=note,
    )


def _arrow(people: Any) -> pa.Table:
    """People as an Arrow table, whatever they came in; two columns of one name are refused."""
    names = [str(name) for name in getattr(people, "columns", ())] if hasattr(people, "iloc") else []
    table = None if len(set(names)) < len(names) else _as_table(people)
    names = names if table is None else table.column_names
    twice = next((name for name in names if names.count(name) > 1), None)
    if table is None or twice is not None:
        raise InputError("repeated-column/table", where=Place(column=twice), twice=twice, names=names.count(str(twice)))
    return table


def _as_table(people: Any) -> pa.Table:
    if isinstance(people, pa.Table):
        return people
    if isinstance(people, pa.RecordBatch) or hasattr(people, "__arrow_c_stream__") or isinstance(people, Mapping):
        return pa.table(people)
    if hasattr(people, "to_arrow"):
        return people.to_arrow()
    if hasattr(people, "iloc"):
        return pa.Table.from_pandas(people, preserve_index=False)
    raise ParameterError("not-a-table/people", found=type(people).__name__)


def _fingerprint(people: pa.Table) -> str:
    """SHA-256 of all values of a table, whatever it came in: by it a ledger tells these people from others.

    The noise is bound to less, the cells that are counted. Columns count by their names, not by their order.
    """
    digest = hashlib.sha256(b"confide/in-memory/people/v1")
    for name, column in sorted(zip(people.column_names, people.columns, strict=True), key=lambda each: each[0]):
        try:
            encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
            values, rows = encoded.dictionary.to_pylist(), encoded.indices.to_numpy().astype("<i8").tobytes()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            values, rows = column.to_pylist(), b""
        text = repr((name, people.num_rows, values)).encode("utf-8", "surrogatepass")
        digest.update(b"%d %d " % (len(text), len(rows)) + text + rows)
    return digest.hexdigest()


def _query(by: Mapping[str, Sequence[Any]] | Sequence[str], schema: Schema | str | Path | None) -> Query:
    """The cross-classification, over a domain that somebody declared."""
    if schema is not None:
        declared = schema if isinstance(schema, Schema) else load_schema(str(schema), Path.cwd())
        query = declared.query("*".join(by))
        _complete(query)
    elif isinstance(by, Mapping) and by:
        attributes = tuple(_attribute(name, values) for name, values in by.items())
        declared = Schema(MECHANISM, "declared by the caller", attributes, ())
        query = Query(tuple(declared.variable(name) for name in by))
    else:
        names = [by] if isinstance(by, str) else [str(name) for name in by]
        raise ParameterError(
            "no-domain", names=", ".join(names), names_remedy=", ".join(f'"{name}": [...]' for name in names)
        )
    if query.cells > MOST_CELLS:
        raise ParameterError("table-too-large/many-cells", cells=query.cells, most_cells=MOST_CELLS)
    return query


def _attribute(name: str, values: Sequence[Any]) -> Attribute:
    if isinstance(values, str) or not all(isinstance(value, int | str | np.integer) for value in values):
        raise ParameterError("bad-domain", found=type(values).__name__, name=name)
    if name in ("count", "margin"):
        raise ParameterError("reserved-name/counts", name=name)
    codes = [value if isinstance(value, str) else int(value) for value in values]
    return Attribute(name, name, tuple(Level(code, str(code)) for code in codes))


def _complete(query: Query) -> None:
    if not query.is_complete:
        raise ParameterError("incomplete-recode/leaves-levels-out", found=query.name)


def _plan(query: Query, rho: Exact | None, epsilon: Exact | None, neighbours: Neighbours, margins: str) -> Plan:
    """The measurements and their price; equal parts of the budget where margins are measured too."""
    if (rho is None) == (epsilon is None):
        raise ParameterError("budget", with_rho=rho is not None)
    definition = Definition.ZCDP if rho is not None else Definition.PURE
    queries = list(query.margins()) if margins == "all" else [query]
    if margins == "all":
        _require_no_total(query)
    parts = len(queries)
    loss = ZCDP(exact(rho, "rho") / parts) if rho is not None else PureDP(exact(epsilon or 0, "epsilon") / parts)
    law = calibrate(loss, neighbours)
    check_width(law)
    measures = tuple(
        PlannedMeasurement(
            EVERYWHERE, each.name, 1, each.cells, law, loss, tuple(v.attribute.name for v in each.variables)
        )
        for each in queries
    )
    variables = {variable.name: variable.labels for variable in query.variables}
    return Plan(MECHANISM, neighbours, definition, measures, (EVERYWHERE,), {"variables": variables})


def _require_no_total(query: Query) -> None:
    """Raises where a level is called as totals are: two rows could not be told apart."""
    for variable in query.variables:
        if any(as_read(label).casefold() == TOTAL_LABEL for label in variable.labels):
            raise ParameterError("reserved-name/level", found=repr(TOTAL_LABEL), variable=variable.name)


def _require_alike(plan: Plan, account: Account) -> None:
    """Raises unless plan and ledger speak of the same loss."""
    kept, asked = (account.definition, account.neighbours), (plan.definition.value, plan.neighbours.value)
    if kept != asked:
        raise ParameterError(
            "ledger-definition/loss", found=", ".join(asked), data_set=account.data_set, kept=", ".join(kept)
        )
    plan.cost_to(PrivacyUnit(account.unit), plan.neighbours, plan.definition, plan.delta)


def _cells(people: pa.Table, query: Query) -> Integers:
    """For each person the cell of the table. Raises where a column is missing or a value is not in the domain."""
    cells = np.zeros(people.num_rows, np.int64)
    for variable in query.variables:
        cells = cells * variable.size + variable.assignment[_codes(people, variable.attribute)]
    return cells


def _codes(people: pa.Table, attribute: Attribute) -> Integers:
    if attribute.name not in people.column_names:
        raise InputError(
            "missing-column/table",
            where=Place(column=attribute.name),
            found=", ".join(people.column_names),
            attribute=attribute.name,
        )
    column = people.column(attribute.name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    declared = pa.array([level.code for level in attribute.levels])
    try:
        codes = pc.index_in(column.cast(declared.type), value_set=declared).combine_chunks()
    except pa.ArrowInvalid:
        codes = pa.nulls(people.num_rows, pa.int32())
    if codes.null_count:
        first = int(np.flatnonzero(np.asarray(codes.is_null()))[0])
        raise InputError(
            "value-not-in-domain",
            where=Place(row=first + 1, column=attribute.name),
            found=CONFIDENTIAL,
            null_count=codes.null_count,
            attribute=attribute.name,
            describe_codes=attribute.describe_codes(),
        )
    return np.asarray(codes.to_numpy(), np.int64)


def _labels(query: Query, plan: Plan) -> dict[str, Any]:
    """The columns that are known before anything is drawn: what each count is of, and how far it may be off."""
    columns: dict[str, Any] = {variable.name: [] for variable in query.variables}
    widths = []
    margins = {margin.name: margin for margin in query.margins()}
    for measurement in plan.measures:
        margin = margins[measurement.query]
        places = np.unravel_index(np.arange(margin.cells), margin.shape or (1,))
        by_name = dict(zip((variable.name for variable in margin.variables), places, strict=False))
        for variable in query.variables:
            indices = by_name.get(variable.name)
            columns[variable.name] += (
                [TOTAL_LABEL] * margin.cells if indices is None else [variable.labels[index] for index in indices]
            )
        widths.append(np.full(margin.cells, measurement.law.noise_margin(MARGIN_PROBABILITY), np.int64))
    return columns | {"margin": np.concatenate(widths)}


def _draw(query: Query, plan: Plan, cells: Integers, noise: NoiseSource) -> Integers:
    """Truth plus noise: the only place where they meet."""
    truth = np.bincount(cells, minlength=query.cells).astype(np.int64).reshape(query.shape)
    margins = {margin.name: margin for margin in query.margins()}
    noisy_counts = []
    for measurement in plan.measures:
        names = {variable.name for variable in margins[measurement.query].variables}
        axes = tuple(axis for axis, variable in enumerate(query.variables) if variable.name not in names)
        true_counts = np.array(truth.sum(axis=axes, dtype=np.int64)).ravel()
        noisy_counts.append(perturb(true_counts, measurement.law, noise.stream(EVERYWHERE, measurement.query)))
    return np.concatenate(noisy_counts)


def _table(labels: Mapping[str, Any], counts: Integers) -> pa.Table:
    variables = {name: values for name, values in labels.items() if name != "margin"}
    return pa.table({**variables, "count": counts, "margin": labels["margin"]})


def _digest(counts: pa.Table, plan: Plan) -> str:
    """What the ledger seals: the counts, the plan, and the version that drew them."""
    content = {"confide": __version__, "plan": plan.hash, "counts": counts.to_pydict()}
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _left_out(counts: pa.Table) -> Iterator[str]:
    if counts.num_rows > MOST_ROWS_SHOWN:
        yield f"… and {counts.num_rows - MOST_ROWS_SHOWN:,} more rows"


def _with_margin(row: Mapping[str, Any]) -> str:
    return f"{row['count']:,} ± {row['margin']:,}"


# Protection without a loss to account for: cell keys, suppression, swapping.


NO_PROMISE = "No differential privacy is promised, and no budget was spent."


@dataclass(frozen=True)
class ProtectedTable(TypedAnswer):
    """Counts protected without differential privacy, and what was done to them."""

    counts: pa.Table
    """A row for each cell, totals with them: the variables and ``count``, which is null where it is suppressed."""
    method: str
    statement: str
    """What was done, in a sentence."""

    def to_pandas(self) -> Any:
        """The counts as a pandas data frame, where pandas is installed."""
        return self.counts.to_pandas()

    def as_dict(self) -> dict[str, Any]:
        """Everything as plain values."""
        return {"method": self.method, "statement": self.statement, "counts": self.counts.to_pylist()}

    def described(self) -> Iterator[AnswerPart]:
        """The counts, what was done to them, and that no promise is made."""
        rows = self.counts.slice(0, MOST_ROWS_SHOWN).to_pylist()
        cells = [["suppressed" if value is None else str(value) for value in row.values()] for row in rows]
        yield ShownTable([*self.counts.column_names[:-1], "count "], cells)
        yield from _left_out(self.counts)
        yield from ("", self.statement, NO_PROMISE)


def protect(
    people: Any,
    by: Mapping[str, Sequence[Any]] | Sequence[str],
    *,
    method: Literal["cellkey", "suppression", "swapping"],
    schema: Schema | str | Path | None = None,
    D: int = 5,
    V: Exact = 2,
    js: int = 0,
    shuffle: str = "derived",
    record_key: str = "record_key",
    maximum: int = 3,
    blocks: Any = None,
    settings: SwapSettings | str = "light",
    insecure_key: str | None = None,
) -> ProtectedTable:
    """Counts people by some variables, with every margin, protected without differential privacy.

    Args:
        people: One row a person: see :func:`tabulate`.
        by: For each variable all values that it can take; with ``schema``, names of its variables.
        method: ``cellkey``: every count is perturbed by the keys of its members, always by the same for the same
            members. ``suppression``: small cells are left out, and others with them, so that none can be worked out.
            ``swapping``: some households exchange their places before anything is counted.
        schema: Where the values are declared: see :func:`tabulate`.
        D: For cell keys, the largest noise.
        V: For cell keys, the variance of the noise.
        js: For cell keys, small counts from 1 to this are never published.
        shuffle: For cell keys, the order of the perturbation table, as in a spec: ``derived``, a secret of 64
            hexadecimal digits, or ``none``.
        record_key: For cell keys, the column with the key of each record: whole numbers from 0 to below 10**8, drawn
            once for ever (:func:`confide.give_record_keys`).
        maximum: For suppression, counts from 1 to this are not published.
        blocks: For swapping, a table with a row for each block and its units above.
        settings: For swapping, shipped settings (``light``, ``heavy``) or one's own.
        insecure_key: For swapping, 64 hexadecimal digits for a trial that can be repeated.

    Returns:
        The protected counts, and what was done to them.

    >>> import pyarrow as pa
    >>> people = pa.table({"area": ["N"] * 9 + ["S"] * 8, "job": ["yes"] * 2 + ["no"] * 7 + ["yes"] * 8})
    >>> by = {"area": ["N", "S"], "job": ["yes", "no"]}
    >>> [row["count"] for row in protect(people, by, method="suppression").counts.to_pylist()]
    [17, 10, 7, 9, None, None, 8, None, None]
    """
    table, query = _arrow(people), _query(by, schema)
    if method == "cellkey":
        counts, statement = _perturbed(table, query, _ptable(D, V, js, shuffle), record_key)
        statement += f", with noise of at most {D} and variance {V}."
    elif method == "suppression":
        counts, statement = _suppressed(table, query, maximum)
    elif method == "swapping":
        counts, statement = _swapped(table, query, blocks, settings, insecure_key, schema)
    else:
        raise ParameterError("no-method", found=repr(method))
    return ProtectedTable(counts, method, statement)


def _with_margins(query: Query) -> tuple[list[Dimension], dict[str, list[str]]]:
    """The variables with a total each, and what each cell of the table with all margins is of."""
    _require_no_total(query)
    dimensions = [flat(variable.name, variable.labels, TOTAL_LABEL) for variable in query.variables]
    places = np.unravel_index(np.arange(prod(d.size for d in dimensions)), [d.size for d in dimensions])
    labels = {d.name: [d.codes[at] for at in place] for d, place in zip(dimensions, places, strict=True)}
    return dimensions, labels


def _ptable(D: int, V: Exact, js: int, shuffle: str) -> PTable:
    """The perturbation table that a spec with these settings has."""
    settings = count_settings(D, V, js)
    try:
        part = CellKeyPart(shuffle=shuffle)
    except ValidationError:
        raise ParameterError("bad-shuffle", where=Place(path="shuffle"), shuffle=len(str(shuffle))) from None
    return shuffled(generate(settings).table(), part)


def _perturbed(people: pa.Table, query: Query, ptable: PTable, record_key: str) -> tuple[pa.Table, str]:
    cells, keys = _cells(people, query), _record_keys(people, record_key, ptable.modulus)
    dimensions, labels = _with_margins(query)
    counted = with_totals(dimensions, np.bincount(cells, minlength=query.cells).reshape(query.shape))
    summed = np.zeros(query.cells, np.int64)
    np.add.at(summed, cells, keys)
    cell_keys = with_totals(dimensions, summed.reshape(query.shape)) % ptable.modulus
    published = counted + ptable.lookup(counted, cell_keys)
    return pa.table({**labels, "count": published.ravel()}), "Counts are perturbed by the cell key method"


def _record_keys(people: pa.Table, column: str, modulus: int) -> Integers:
    if column not in people.column_names:
        raise InputError(
            "missing-column/record", where=Place(column=column), found=", ".join(people.column_names), column=column
        )
    values = people.column(column)
    if not pa.types.is_integer(values.type) or values.null_count:
        keys = np.full(1, -1, np.int64)
    else:
        keys = values.to_numpy().astype(np.int64)
    if len(keys) and not (keys.min() >= 0 and keys.max() < modulus):
        raise InputError("bad-record-keys", where=Place(column=column), found=CONFIDENTIAL, modulus=modulus)
    return keys


def _suppressed(people: pa.Table, query: Query, maximum: int) -> tuple[pa.Table, str]:
    dimensions, labels = _with_margins(query)
    inner = np.bincount(_cells(people, query), minlength=query.cells).reshape(query.shape)
    counts = with_totals(dimensions, inner)
    result = suppress_tables({query.name: (dimensions, counts)}, maximum=maximum)
    published = result.published[query.name].ravel()
    statement = (
        f"Counts from 1 to {maximum} are suppressed, and others with them: {result.suppressed:,} of {result.cells:,} "
        "cells, none of which can be worked out from this table."
    )
    return pa.table({**labels, "count": masked(counts.ravel(), ~published)}), statement


def _swapped(
    people: pa.Table,
    query: Query,
    blocks: Any,
    settings: SwapSettings | str,
    insecure_key: str | None,
    schema: Schema | str | Path | None,
) -> tuple[pa.Table, str]:
    if blocks is None:
        raise ParameterError("no-blocks/swapping")
    key = ReleaseKey.from_system() if insecure_key is None else ReleaseKey.choose(insecure_key)
    chosen = load_settings(settings) if isinstance(settings, str) else settings
    records = swap_records(people, _arrow(blocks), chosen, key, schema=schema)
    dimensions, labels = _with_margins(query)
    counts = with_totals(dimensions, np.bincount(_cells(records, query), minlength=query.cells).reshape(query.shape))
    statement = "Some households exchanged their places before anything was counted; which ones is a secret."
    return pa.table({**labels, "count": counts.ravel()}), statement
