import numpy as np
import torch

from gpnn.report.states import embed, states


def test_groups_stay_apart():
    random = np.random.default_rng(0)
    points = np.repeat(np.eye(3) * 30, 20, axis=0) + random.standard_normal((60, 3))
    places = embed(np.hstack([points, random.standard_normal((60, 40))]), seed=0)
    centres = places.reshape(3, 20, 2).mean(1)
    spread = np.linalg.norm(places.reshape(3, 20, 2) - centres[:, None], axis=2).mean()
    assert min(np.linalg.norm(centres[a] - centres[b]) for a, b in ((0, 1), (0, 2), (1, 2))) > spread


def test_states_without_information_are_left_out(inputs):
    assert embed(np.ones((20, 3)), seed=0) is None
    assert embed(np.full((20, 3), np.nan), seed=0) is None
    assert states(inputs.gather(states=torch.ones(90, 4))) is None
    assert states(inputs.gather(states=None)) is None


def test_one_column_is_enough(inputs):
    section = states(inputs.gather(states=inputs.states[:, :1]))
    assert next(iter(section.parts[0].views)) == "true class"
