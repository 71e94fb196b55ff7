"""The options of the graph to predict on."""

import pytest

from gpnn.build.predict import with_graph
from gpnn.config import Config
from gpnn.config.sections import DataConfig


@pytest.mark.parametrize(
    ("trained", "given", "options"),
    [
        (("graph", {"label": "club", "edges": "e.csv"}), ("graph", {}), {"label": "club", "edges": "e.csv"}),
        (("graph", {"label": "club", "edges": "e.csv"}), ("grown", {}), {"label": "club"}),
        (("graph", {"label": "club", "edges": "e.csv"}), ("graph", {"nodes": "n"}), {"label": "club", "nodes": "n"}),
        (("cora", {"split": "random"}), ("cora", {"seed": 1}), {"split": "random", "seed": 1}),
        (("cora", {"split": "random"}), ("citeseer", {}), {}),
    ],
)
def test_options_of_the_run_that_apply_to_another_graph(trained, given, options):
    run = Config(data=DataConfig(trained[0], undirected=True, options=trained[1]))
    found = with_graph(run, DataConfig(given[0], options=given[1])).data
    assert (found.name, found.undirected, dict(found.options)) == (given[0], True, options)
