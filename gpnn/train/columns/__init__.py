"""The solver of :class:`gpnn.nn.columns.ColumnModel`: ridge by L-BFGS, boosted trees by scikit-learn."""

from gpnn.train.columns.column_solver import ColumnSolver

__all__ = ["ColumnSolver"]
