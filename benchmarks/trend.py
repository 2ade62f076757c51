"""Tests a series for drift: the Mann-Kendall test, and the Theil-Sen slope with its 95 % confidence interval."""
import math
import statistics


def trend(values):
    """For equidistant values: the two-sided p of Mann and Kendall (normal approximation, corrected for ties, for ten values and
    more), and the slope per step with its interval (Sen's)."""
    n = len(values)
    slopes = sorted((values[j] - values[i]) / (j - i) for i in range(n) for j in range(i + 1, n))
    s = sum((slope > 0) - (slope < 0) for slope in slopes)
    ties = [values.count(value) for value in set(values)]
    variance = (n * (n - 1) * (2 * n + 5) - sum(t * (t - 1) * (2 * t + 5) for t in ties)) / 18
    z = (s - (s > 0) + (s < 0)) / math.sqrt(variance) if variance > 0 else 0
    reach = 1.96 * math.sqrt(variance)
    low = slopes[max(0, int((len(slopes) - reach) / 2) - 1)]
    high = slopes[min(len(slopes) - 1, int((len(slopes) + reach) / 2))]
    return {"p": math.erfc(abs(z) / math.sqrt(2)), "slope": statistics.median(slopes), "low": low, "high": high}
