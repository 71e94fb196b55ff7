import numpy as np
import torch
from torch_geometric.data import Data

from experiments.baselines.selection import choose_best, validate

DATA = Data(y=torch.tensor([0, 1, 1]), val_mask=torch.tensor([True, True, False]))
WRONG, RIGHT, SURE = (np.array([[a, 1 - a], [1 - a, a], [1.0, 0.0]]) for a in (0.2, 0.6, 0.9))


def test_accuracy_first_then_likelihood_then_order() -> None:
    assert choose_best([WRONG, RIGHT], DATA) is RIGHT
    assert choose_best([RIGHT, SURE, WRONG], DATA) is SURE
    assert choose_best([RIGHT, RIGHT.copy()], DATA) is RIGHT
    assert validate(SURE, DATA) == (1.0, float(np.log(0.9)))


def test_without_validation_the_first() -> None:
    assert choose_best([WRONG, SURE], Data(y=torch.tensor([0, 1, 1]))) is WRONG
