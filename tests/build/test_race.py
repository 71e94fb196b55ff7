import json
from dataclasses import replace

import pytest
import torch

from gpnn import GPNNClassifier, load_dataset
from gpnn.build import (
    Race,
    begin_run,
    build,
    build_data,
    load_run_config,
    open_run,
    predict_trained,
    race_run,
    read_trained,
    train_run,
)
from gpnn.build.race import read_race
from gpnn.config import Config, parse_config
from gpnn.memory.engine import DoesNotFit
from gpnn.memory.estimate import Estimate
from gpnn.pipeline import Pipeline
from gpnn.recipes import RECIPES
from gpnn.train import RunFolder

SETTINGS = {
    "recipe": "auto",
    "data": {"name": "planted", "num_nodes": 90, "num_classes": 3, "num_features": 8, "label_rate": 0.3},
    "train": {"metric": "macro_f1"},
}


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Recipes of few epochs over few rounds; the table is in its order again afterwards."""
    table = dict(RECIPES)
    for name, recipe in table.items():
        small = replace(recipe.train, epochs=8, patience=0)
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=small))
    yield
    monkeypatch.undo()
    RECIPES.clear()
    RECIPES.update(table)


def base() -> Config:
    config, problems = parse_config(SETTINGS)
    assert not problems
    return config


def begin(path):
    return begin_run(base, path, before=lambda config: Race(config.to_toml(), ("data.name", "train.metric")))


class Stop:
    def start(self, history) -> None:
        pass

    def epoch(self, record) -> bool:
        return True


def test_a_recipe_keeps_what_was_given_and_the_data_and_nothing_else():
    race = Race(replace(base(), seed=7).to_toml(), ("data.name", "train.metric", "seed"))
    config = race.config("gated")
    assert (config.recipe, config.seed, config.data) == ("gated", 7, base().data)
    assert config.train == replace(RECIPES["gated"].train, metric="macro_f1")
    assert config.model == Config.of("gated").model


def test_a_table_that_was_given_is_kept_whole():
    config = replace(base(), model=replace(base().model, cell_options={"alpha": 0.2}))
    assert Race(config.to_toml(), ("model.cell_options.alpha",)).config("spread").model.cell_options == {"alpha": 0.2}


def test_the_winner_becomes_the_run(tmp_path):
    run, begun = begin(tmp_path / "run")
    assert read_race(run.race).winner is None
    noted = []
    built = race_run(run, begun, on_record=noted.append)
    race = read_race(run.race)
    assert race.winner == race.record.finalists[0] == built.config.recipe
    assert race.record == noted[-1]
    assert race.record.metric == "macro_f1"
    assert run.checkpoint.is_file()
    assert not (run.path / "race").exists()
    assert parse_config(read_toml(run))[0] == built.config
    assert race_run(run, built) is built  # nothing is left to do


def test_an_interrupted_race_goes_on(tmp_path):
    whole, begun = begin(tmp_path / "whole")
    race_run(whole, begun)
    run, begun = begin(tmp_path / "run")
    assert race_run(run, begun, callbacks=[Stop()]) is None
    assert read_race(run.race).winner is None
    run, begun = open_run(run.path)
    built = race_run(run, begun)
    assert built is not None
    assert untimed(run) == untimed(whole)


def test_without_validation_nodes_the_default_is_taken(tmp_path):
    before = lambda config: Race(config.to_toml(), ("data.scale_features",))  # noqa: E731  so that nothing is read again
    run, begun = begin_run(base, tmp_path / "run", before=before)
    begun.data.val_mask[:] = False
    built = race_run(run, begun)
    assert built.config.recipe == "spread"
    assert read_race(run.race).record is None


def test_a_run_without_a_race_keeps_its_objects(tmp_path):
    run, begun = begin_run(base, tmp_path / "run")
    assert race_run(run, begun) is begun


def one_way(path):
    """A folder whose edges go one way."""
    path.mkdir()
    people = [f"{node},{'ab'[node % 2]},{node % 2 + node / 100}" for node in range(60)]
    (path / "nodes.csv").write_text("\n".join(["id,label,age", *people]) + "\n")
    edges = [f"{node},{(node + step) % 60}" for node in range(60) for step in (2, 4)]
    (path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return path


def test_a_race_gives_one_way_edges_a_reverse_where_a_recipe_needs_it(tmp_path, monkeypatch):
    for name in set(RECIPES) - {"spread", "gated"}:
        monkeypatch.delitem(RECIPES, name)
    config = replace(base(), data=replace(base().data, name=str(one_way(tmp_path / "graph")), options={}))
    run, begun = begin_run(lambda: config, tmp_path / "run", before=lambda config: Race(config.to_toml(), ()))
    built = race_run(run, begun)
    assert (begun.data.num_edges, built.data.num_edges) == (120, 240)
    assert built.config.data.undirected
    run, again = open_run(run.path)  # the digest is that of the edges of both ways
    assert again.data.num_edges == 240
    train_run(run, again, report=False)
    assert predict_trained(read_trained(run), again.config, again.data).num_rows == 60
    race = Race(config.to_toml(), ("data.undirected",))
    assert not race.config("spread", {"undirected": True}).data.undirected  # the user has said so
    classifier = GPNNClassifier().fit(load_dataset(tmp_path / "graph"))
    assert classifier.undirected_
    assert (classifier.recipe_, classifier.race_.finalists) == (
        built.config.recipe,
        read_race(run.race).record.finalists,
    )
    ours, theirs = classifier.model_.state_dict(), run.read_model()[0]
    assert all(torch.equal(ours[key].cpu(), theirs[key]) for key in theirs)
    classifier.save(tmp_path / "saved")
    data = load_dataset(tmp_path / "graph")
    assert (GPNNClassifier.load(tmp_path / "saved").predict_proba(data) == classifier.predict_proba(data)).all()


@pytest.mark.parametrize(("recipe", "reverses"), [("residual", "typed"), ("deep", "directions")])
def test_a_recipe_that_maps_types_gets_reverses_as_types_and_raw_features(recipe, reverses, tmp_path, monkeypatch):
    for name in set(RECIPES) - {recipe}:
        monkeypatch.setitem(RECIPES, name, replace(RECIPES[name], suits=lambda facts: False))
    folder = one_way(tmp_path / "graph")
    data = replace(base().data, name=str(folder), options={})
    config = replace(base(), data=data, train=replace(base().train, epochs=3, metric="auto"))
    before = lambda config: Race(config.to_toml(), ("train.epochs",))  # noqa: E731
    run, begun = begin_run(lambda: config, tmp_path / "run", before=before)
    built = race_run(run, begun)
    assert (built.config.recipe, built.config.data.undirected) == (recipe, reverses)
    assert (built.config.data.scale_features, built.plan.num_edge_types) == ("none", 2)
    assert built.model_arguments["message"] == "linear"
    run, again = open_run(run.path)
    train_run(run, again, report=False)
    assert predict_trained(read_trained(run), again.config, again.data).num_rows == 60
    given = load_dataset(folder)
    classifier = GPNNClassifier(recipe="auto", epochs=3).fit(given)
    assert (classifier.undirected_, classifier.scale_features_) == (reverses, "none")
    ours, theirs = classifier.model_.state_dict(), run.read_model()[0]
    assert all(torch.equal(ours[key].cpu(), theirs[key]) for key in theirs)
    classifier.save(tmp_path / "saved")
    assert (GPNNClassifier.load(tmp_path / "saved").predict_proba(given) == classifier.predict_proba(given)).all()


@pytest.mark.parametrize("scale", ["auto", "rows"])
def test_command_line_and_estimator_race_the_same_recipes_where_rows_differ(tmp_path, monkeypatch, scale):
    for name in set(RECIPES) - {"spread", "raw"}:
        monkeypatch.delitem(RECIPES, name)
    folder = one_way(tmp_path / "graph")
    people = [f"{node},{'ab'[node % 2]},{node % 2 * node},{node}" for node in range(60)]
    (folder / "nodes.csv").write_text("\n".join(["id,label,age,words", *people]) + "\n")
    data = replace(base().data, name=str(folder), options={"numbers": "raw"}, scale_features=scale)
    fixed = () if scale == "auto" else ("data.scale_features",)
    before = lambda config: Race(config.to_toml(), fixed)  # noqa: E731
    run, begun = begin_run(lambda: replace(base(), data=data), tmp_path / "run", before=before)
    race_run(run, begun)
    record = read_race(run.race).record
    raced = ["spread", "raw"] if scale == "auto" else None  # one scale for all: the two are the same recipe
    assert (record and list(record.costs)) == raced
    estimator = GPNNClassifier(scale_features=scale).fit(load_dataset(folder, numbers="raw"))
    assert (list(estimator.race_.costs) if hasattr(estimator, "race_") else None) == raced


@pytest.mark.thorough
def test_a_race_of_one_way_edges_that_was_stopped_goes_on_from_its_own_data(tmp_path):
    config = replace(base(), data=replace(base().data, name=str(one_way(tmp_path / "graph")), options={}))
    run, begun = begin_run(lambda: config, tmp_path / "run", before=lambda config: Race(config.to_toml(), ()))
    assert race_run(run, begun, callbacks=[Stop()]) is None
    kept = load_run_config(run)
    assert kept.data.undirected  # that of the first recipe, whose predictions the run has
    assert run.has_results
    assert not run.finished
    assert predict_trained(read_trained(run), kept, build_data(kept)).num_rows == 60
    run, again = open_run(run.path)
    assert again.data.num_edges == begun.data.num_edges == 120
    run.reopen()
    built = race_run(run, again)
    assert built is not None
    edges = tmp_path / "graph" / "edges.csv"
    edges.write_text(edges.read_text() + "1,9\n")
    with pytest.raises(ValueError, match="has changed since"):
        open_run(run.path)


@pytest.mark.filterwarnings("ignore::gpnn.train.notes.NoteWarning")
def test_labels_of_test_nodes_change_nothing(planted):
    other = planted.clone()
    other.y[other.test_mask] = other.y[other.test_mask].flip(0)
    one, two = (GPNNClassifier(seed=1).fit(data) for data in (planted, other))
    assert [{**row, "seconds": 0} for row in one.race_.rows] == [{**row, "seconds": 0} for row in two.race_.rows]
    assert (one.predict_proba(planted) == two.predict_proba(planted)).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"base": 3}, "must note a race. Got another 'base'"),
        ({"fixed": [1]}, "must note a race. Got another 'fixed'"),
        ({"more": 1}, "must note a race. Got another 'more'"),
        ({"base": "a = "}, "The base in race.json must be a configuration"),
        ({"record": {}}, "must hold a race. Got another 'budget'"),
        ({"winner": 1}, "must note a race. Got another 'winner'"),
        ({"winner": "magic"}, "must note recipes that there are. Got 'magic'"),
    ],
)
def test_another_file_is_refused(tmp_path, change, said):
    path = tmp_path / "race.json"
    path.write_text(json.dumps({**Race(base().to_toml()).to_mapping(), **change}))
    with pytest.raises(ValueError, match=said):
        read_race(path)


def read_toml(run: RunFolder):
    import tomllib

    return tomllib.loads(run.config.read_text())


def untimed(run: RunFolder):
    race = read_race(run.race)
    return race.winner, [{**row, "seconds": 0} for row in race.record.rows]


@pytest.fixture
def cells_that_fit(monkeypatch) -> set[str]:
    """The cells of models that fit in memory; with "linear" alone the first recipes do not."""
    fits = {"gru"}

    def choose(pipeline, model, *rest, **options):
        if pipeline.model_options["cell"] not in fits:
            raise DoesNotFit("Training must fit", Estimate(3e9, 0, 0, 0, 0, 0, 0), 2e9)
        return choose_engine(pipeline, model, *rest, **options)

    choose_engine = Pipeline.choose_engine
    monkeypatch.setattr(Pipeline, "choose_engine", choose)
    return fits


def test_a_race_begins_and_goes_on_where_the_default_does_not_fit(tmp_path, cells_that_fit):
    run, begun = begin(tmp_path / "run")
    assert (begun.config.recipe, begun.config.engine) == ("auto", "auto")
    assert race_run(run, begun, callbacks=[Stop()]) is None
    run, begun = open_run(run.path)
    built = race_run(run, begun)
    record = read_race(run.race).record
    assert {"gated", "columns"} == set(record.costs)
    assert {"spread", "deep"} <= set(record.too_large)
    train_run(run, built, report=False)
    assert run.finished
    classifier = GPNNClassifier(train_options={"metric": "macro_f1"}).fit(build_data(base()))
    assert (set(classifier.race_.costs), classifier.race_.too_large) == (set(record.costs), record.too_large)


@pytest.mark.parametrize(("large", "first"), [(1_000_000, "spread"), (80, "large")])
def test_what_a_race_begins_with_is_built_once(tmp_path, monkeypatch, large, first):
    for module in ("gpnn.recipes", "gpnn.build.race"):
        monkeypatch.setattr(f"{module}.LARGE_GRAPH", large)
    built: list[str] = []

    def count(config, data):
        built.append(config.recipe)
        return build(config, data)

    monkeypatch.setattr("gpnn.build.objects.build", count)
    run, begun = begin(tmp_path / "run")
    assert built == [begun.ready] == [first]
    decided: list[list[str]] = []
    assert race_run(run, begun, callbacks=[Stop()], on_record=lambda record: decided.append(built[:])) is None
    costs = list(read_race(run.race).record.costs)
    assert len(decided[0]) == len(set(decided[0]))
    assert first in costs
    assert costs == [name for name in RECIPES if name in costs]


def test_a_large_graph_races_the_recipe_that_is_made_for_it(tmp_path, monkeypatch, cells_that_fit):
    for module in ("gpnn.recipes", "gpnn.build.race"):
        monkeypatch.setattr(f"{module}.LARGE_GRAPH", 80)
    run, begun = begin(tmp_path / "run")
    assert race_run(run, begun) is not None
    assert {"large", "gated"} <= set(read_race(run.race).record.costs)


def test_where_no_recipe_fits_nothing_is_left_behind(tmp_path, monkeypatch, cells_that_fit):
    cells_that_fit.clear()
    monkeypatch.delitem(RECIPES, "columns")
    with pytest.raises(DoesNotFit, match="Training must fit"):
        begin(tmp_path / "run")
    assert not (tmp_path / "run").exists()
