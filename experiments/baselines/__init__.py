"""Every method of the paper's tables, behind one table and one contract."""

from experiments.baselines.table import BASELINES, baseline_options, fit_predict, run_baseline

__all__ = ["BASELINES", "baseline_options", "fit_predict", "run_baseline"]
