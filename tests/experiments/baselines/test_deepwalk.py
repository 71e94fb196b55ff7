import re
import sys

import pytest
import torch
from torch_geometric.data import Data

from experiments.baselines import fit_predict
from gpnn.check import install_command


def test_features_are_not_used(planted: Data) -> None:
    bare = planted.clone()
    bare.x, bare.num_nodes = None, planted.num_nodes
    options = {"channels": 4, "num_walks": 1}
    assert torch.equal(fit_predict("deepwalk", planted, **options), fit_predict("deepwalk", bare, **options))


def test_unknown_trainer(planted: Data) -> None:
    with pytest.raises(ValueError, match=r"`trainer` must be one of own, gensim\. Got 'glove'\."):
        fit_predict("deepwalk", planted, trainer="glove")


def test_gensim_is_named_where_it_is_missing(planted: Data, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim", None)
    monkeypatch.setitem(sys.modules, "gensim.models", None)
    with pytest.raises(ValueError, match=re.escape(f"must find gensim ({install_command('baselines')})")):
        fit_predict("deepwalk", planted, trainer="gensim")


def test_gensim_where_it_is_there(planted: Data) -> None:
    pytest.importorskip("gensim", reason="needs the extra `baselines`")
    first, again = (fit_predict("deepwalk", planted, trainer="gensim", channels=4, num_walks=2) for _ in range(2))
    assert torch.equal(first, again)
