"""The compiled loops of :mod:`confide.risk.bayesian.log_convolution`."""

from __future__ import annotations

import numba
import numpy as np

from confide.risk.bayesian.counts import FloatArray


@numba.njit("float64[::1](float64[::1], float64[::1])", cache=True, nogil=True, boundscheck=False)
def plain(short: FloatArray, long: FloatArray) -> FloatArray:
    """All terms are looked at twice: for the largest, and to be added up."""
    few, many = short.shape[0], long.shape[0]
    result = np.empty(few + many - 1)
    for n in range(few + many - 1):
        begin, end = max(0, n - many + 1), min(few, n + 1)
        top = -np.inf
        for i in range(begin, end):
            top = max(top, short[i] + long[n - i])
        if top == -np.inf:
            result[n] = top
            continue
        total = 0.0
        for i in range(begin, end):
            term = short[i] + long[n - i] - top
            if term > -46.0:
                total += np.exp(term)
        result[n] = top + np.log(total)
    return result


@numba.njit("float64[::1](float64[::1], float64[::1])", cache=True, nogil=True, boundscheck=False)
def peaked(short: FloatArray, long: FloatArray) -> FloatArray:
    """Terms around the peak alone, which moves forward with n: for concave logarithms."""
    few, many = short.shape[0], long.shape[0]
    result = np.empty(few + many - 1)
    peak = 0
    for n in range(few + many - 1):
        begin, end = max(0, n - many + 1), min(few, n + 1)
        peak = min(max(peak, begin), end - 1)
        top = short[peak] + long[n - peak]
        while peak + 1 < end and short[peak + 1] + long[n - peak - 1] >= top:
            peak += 1
            top = short[peak] + long[n - peak]
        while peak - 1 >= begin and short[peak - 1] + long[n - peak + 1] > top:
            peak -= 1
            top = short[peak] + long[n - peak]
        total = 1.0
        for i in range(peak + 1, end):
            term = short[i] + long[n - i] - top
            if term < -46.0:
                break
            total += np.exp(term)
        for i in range(peak - 1, begin - 1, -1):
            term = short[i] + long[n - i] - top
            if term < -46.0:
                break
            total += np.exp(term)
        result[n] = top + np.log(total)
    return result
