from confide.lab.published.marginals import ImpossibleCells as ImpossibleCells
from confide.lab.published.marginals import NoiseBound as NoiseBound
from confide.lab.published.marginals import Published as Published
from confide.lab.published.marginals import PublishedGeography as PublishedGeography
from confide.lab.published.marginals import PublishedMarginal as PublishedMarginal
