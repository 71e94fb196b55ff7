"""Slow aggregation: one entry at a time, and its gradient by the rule of the entry that won."""

import numpy as np


def aggregate_rows(rows, cols, weight, x, num_rows, how, fill=0.0):
    """sum, max or min of weight · x[col] over the entries of each row, `[R, d]`."""
    out = np.full((num_rows, x.shape[1]), 0.0 if how == "sum" else fill)
    for row in range(num_rows):
        received = [weight[e] * x[cols[e]] for e in range(len(rows)) if rows[e] == row]
        if received:
            out[row] = {"sum": np.sum, "max": np.max, "min": np.min}[how](received, axis=0)
    return out


def aggregate_gradient(rows, cols, weight, x, grad, how):
    """The gradient with respect to x, `[C, d]`; of equal extremes the first entry takes it."""
    out = np.zeros_like(x)
    for row in range(len(grad)):
        entries = [e for e in range(len(rows)) if rows[e] == row]
        for j in range(x.shape[1]):
            if how != "sum" and entries:
                values = [weight[e] * x[cols[e], j] for e in entries]
                chosen = [entries[int(np.argmax(values) if how == "max" else np.argmin(values))]]
            else:
                chosen = entries
            for e in chosen:
                out[cols[e], j] += weight[e] * grad[row, j]
    return out
