"""Confidence interval of a median of paired values."""
import math


def confidence_of_median(values):
    """The distribution-free 95 % confidence interval of the median (order statistics of a sign test). For fewer than six values,
    the whole range, which covers less than 95 %."""
    ordered, n = sorted(values), len(values)
    below, total = 0, 0.0
    while below < n // 2 and (total := total + math.comb(n, below) / 2**n) <= 0.025:
        below += 1
    below = max(below, 1)
    return ordered[below - 1], ordered[n - below]
