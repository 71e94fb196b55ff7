"""Training: fit, its recipe, metrics, checkpoints and the run folder."""

from gpnn.run.folder import RunFolder
from gpnn.train.evaluate import predict_logits, probabilities, score
from gpnn.train.fit import FitResult, fit
from gpnn.train.metrics import METRICS
from gpnn.train.recipe import Recipe

__all__ = ["METRICS", "FitResult", "Recipe", "RunFolder", "fit", "predict_logits", "probabilities", "score"]
