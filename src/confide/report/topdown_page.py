"""The numbers of a TopDown evaluation, arranged as the dossier shows them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from markupsafe import Markup, escape

from confide.report.plots import VERY_FEW
from confide.report.render import fixed, signed
from confide.topdown.evaluation.characteristics import ALL_CELLS
from confide.utility.metrics import SIZE_BINS, bin_label

Row = dict[str, Any]

AIM = 0.95
"""The share of areas that the settings of 2020 were tuned for."""


def mean_of(value: Any) -> float | None:
    """A number, or the mean over keys that stands in its place."""
    if isinstance(value, dict):
        return float(value["mean"])
    return None if value is None else float(value)


def shown(value: Any, digits: int = 2, *, sign: bool = False, unit: str = "", scale: float = 1.0) -> Markup:
    """A number for the page; where it is a mean over keys, with the half width of its interval below."""
    mean = mean_of(value)
    if mean is None:
        return Markup("–")
    text = escape((signed if sign else fixed)(scale * mean, digits) + unit)
    if isinstance(value, dict) and value["high"] is not None:
        text += Markup("<small>± {}</small>").format(fixed(scale * (value["high"] - mean), digits))
    return text


class Page:
    """What the template of the dossier asks for."""

    def __init__(self, numbers: dict[str, Any], keys: int):
        self.keys = keys
        self.noun: str = numbers["noun"]
        self.units: dict[str, int] = {one["name"]: one["units"] for one in numbers["geographies"]}
        self.kinds: dict[str, str] = {one["name"]: one["kind"] for one in numbers["geographies"]}
        self.geographies = list(self.units)
        self.titles: dict[str, str] = {one["name"]: one["title"] for one in numbers["queries"]}
        self.rows: list[Row] = numbers["accuracy"]
        self.shares: list[Row] = numbers["largest_group"]
        self.shown = shown

    @cached_property
    def main(self) -> list[str]:
        """The geographies of pictures and long tables: without parts of units, and without very few areas."""
        several = [name for name in self.geographies if self.kinds[name] != "part" and self.units[name] >= VERY_FEW]
        return several or self.geographies

    def label(self, geography: str) -> str:
        """The name of a geography for people."""
        return geography.replace("_", " ")

    @cached_property
    def _queries(self) -> list[str]:
        return list(dict.fromkeys(row["query"] for row in self.rows))

    @cached_property
    def key(self) -> str:
        """The characteristic of the headlines: the total, or, where totals are exact, the first that is not."""
        totals = [row for row in self.rows if row["query"] == "total"]
        others = [query for query in self._queries if query != "total"]
        exact = all(not mean_of(row["mean_absolute_error"]) for row in totals)
        noisy = any((row["noise_alone"] or {}).get("mean_absolute_error") for row in totals)
        return others[0] if exact and not noisy and others else "total"

    @property
    def key_label(self) -> str:
        return "total" if self.key == "total" else f"counts by {self.titles[self.key]}"

    @property
    def key_question(self) -> str:
        return f"How far off {'is' if self.key == 'total' else 'are'} the {self.key_label}?"

    def of(self, query: str) -> list[Row]:
        """The rows of a query as a whole, one for each geography."""
        return [row for row in self.rows if row["query"] == query and row["cell"] in (ALL_CELLS, "total")]

    @cached_property
    def key_rows(self) -> list[Row]:
        return self.of(self.key)

    @cached_property
    def cells(self) -> list[Row]:
        """Every characteristic that is one set of records, in the main geographies."""
        return [row for row in self.rows if row["cell"] != ALL_CELLS and row["geography"] in self.main]

    @cached_property
    def headlines(self) -> list[tuple[Markup, str]]:
        """Up to four figures, each with what it says."""
        by_name = {row["geography"]: row for row in self.key_rows}
        wanted = [name for name, kind in self.kinds.items() if kind == "area"]
        wanted += [name for name, kind in self.kinds.items() if kind == "made"]
        wanted += [name for name in reversed(self.geographies) if name not in wanted and name != self.geographies[0]]
        found = []
        for name in [n for n in wanted if n in by_name and by_name[n]["mean_truth"]][:3]:
            error = shown(by_name[name]["mean_absolute_error"], 2)
            text = f"{self.noun}, mean absolute error of the {self.key_label} of a {self.label(name)}"
            found.append((error, text))
        for row in self.policy:
            if row["many"] and mean_of(row["many"]["share_within"]) is not None:
                text = f"of {row['label']} areas with 500 or more {self.noun} keep the share of their largest group"
                found.append((shown(row["many"]["share_within"], 1, unit=" %", scale=100), text))
                break
        return found

    @cached_property
    def policy(self) -> list[Row]:
        """The shares of largest groups by query and geography: all areas, and those with many people."""
        preferred = {"area": 0, "made": 1}
        pairs: dict[tuple[str, str], Row] = {}
        for row in (row for row in self.shares if row["geography"] in self.main):
            pair = pairs.setdefault(
                (row["query"], row["geography"]),
                {"query": self.titles[row["query"]], "label": self.label(row["geography"]), "all": None, "many": None},
            )
            pair["many" if row["least_people"] else "all"] = row
        order = {query: position for position, query in enumerate(dict.fromkeys(query for query, _ in pairs))}
        ranked = sorted(pairs, key=lambda key: (order[key[0]], preferred.get(self.kinds[key[1]], 2)))
        return [pairs[key] for key in ranked]

    def reaches_aim(self, row: Row) -> bool:
        """Whether a share of largest groups reaches the aim of 2020."""
        share = mean_of(row["share_within"])
        return share is not None and share >= AIM

    @cached_property
    def matrix_geographies(self) -> list[str]:
        """The geographies of the wide table: the main ones, but for blocks."""
        return [name for name in self.main if name != self.geographies[-1]] or self.main

    @cached_property
    def matrix(self) -> list[tuple[str, list[tuple[str, list[Markup]]]]]:
        """For each query its cells, each with the mean absolute error in the geographies of the wide table."""
        found: dict[str, dict[str, dict[str, Markup]]] = {}
        for row in self.rows:
            cells = found.setdefault(row["query"], {})
            cells.setdefault(row["cell"], {})[row["geography"]] = shown(row["mean_absolute_error"], 2)
        return [
            (
                self.titles[query],
                [(cell, [by.get(name, shown(None)) for name in self.matrix_geographies]) for cell, by in cells.items()],
            )
            for query, cells in found.items()
        ]

    @cached_property
    def _bias_query(self) -> str | None:
        queries = [row["query"] for row in self.shares] or [query for query in self._queries if query != "total"]
        return queries[0] if queries else None

    @property
    def bias_label(self) -> str:
        return "" if self._bias_query is None else self.titles[self._bias_query]

    @cached_property
    def bias_rows(self) -> list[tuple[Row, list[Row]]]:
        """The rows of the query that shows the bias, each with its classes of the true count."""
        if self._bias_query is None:
            return []
        return [(row, row["by_true_size"]) for row in self.of(self._bias_query) if row["geography"] in self.main]

    def bias_points(self) -> tuple[list[str], list[Row]]:
        """The classes of the true count, and the mean error of each geography in each."""
        sizes = [bin_label(SIZE_BINS, number) for number in range(len(SIZE_BINS))]
        points = [
            {
                "geography": self.label(row["geography"]),
                "size": part["true_size"],
                "mean_error": mean_of(part["mean_error"]),
                "areas": part["areas"],
            }
            for row, parts in self.bias_rows
            for part in parts
        ]
        return sizes, points
