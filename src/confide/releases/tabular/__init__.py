"""One tabular release: tables with their margins, how their rows are written and read, and what ``verify`` asks of all.

A *table* crosses variables; a *margin* is the cross-classification of some of them, from the total, which has none, to
the table itself. The column of a variable that a margin sums over has ``_T``. A row is known by the number of its
margin and the number of its cell in it, and on tables of a geography also by its level and area:

    (level, area, (area_name,)) margin, codes and labels of the variables, figures   Parquet and CSV
    STRUCTURE, STRUCTURE_ID, ACTION, CODES, OBS_VALUE, ATTRIBUTES                     SDMX-CSV 2.0

A mechanism adds its own figures (a noise margin, a status, a weighted count), and the checks that these allow. It
speaks of cells by labels.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
