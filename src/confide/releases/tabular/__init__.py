"""One tabular release: tables with their margins, how their rows are written and read, and what ``verify`` asks of all.

A *table* crosses variables; a *margin* is the cross-classification of some of them, from the total, which has none, to
the table itself. In the column of a variable that a margin sums over stands the *total label*. A row is known by the
number of its margin and the number of its cell in it, and on tables of a geography by its level and area besides:

    (level, area,) labels of the variables, figures                                the first layout
    (level, area, name,) margin, codes and labels of the variables, figures        the second layout: ``coded``
    DATAFLOW, LABELS OF THE VARIABLES, OBS_VALUE, ...                              SDMX-CSV 1.0, of the first layout
    STRUCTURE, STRUCTURE_ID, ACTION, CODES, OBS_VALUE, ATTRIBUTES                  SDMX-CSV 2.0, of the second layout

A mechanism adds its own figures (a noise margin, a status, a weighted count), and the checks that these allow. It
speaks of cells by labels in either layout.
"""

from __future__ import annotations

from confide.lazy_names import lazy_names

__getattr__, __dir__, __all__ = lazy_names(__name__)
