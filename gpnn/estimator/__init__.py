"""Graph partition neural networks under scikit-learn's conventions."""

from gpnn.estimator.estimators import GPNNClassifier, GPNNRegressor

__all__ = ["GPNNClassifier", "GPNNRegressor"]
