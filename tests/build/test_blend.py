import json
import shutil
from dataclasses import replace

import pytest
import torch

import gpnn
from gpnn import GPNNClassifier, GPNNRegressor
from gpnn.build import (
    Race,
    begin_run,
    build_data,
    explain_run,
    load_run_config,
    open_run,
    predict_trained,
    race_run,
    read_trained,
    report_run,
    train_run,
)
from gpnn.build.race import read_race
from gpnn.config import parse_config
from gpnn.recipes import RECIPES
from gpnn.train import RunFolder
from gpnn.train.blend import Blend
from tests.oracle.run_cases import race_case


@pytest.fixture(autouse=True)
def blended(monkeypatch):
    """Recipes of few epochs; every race blends its two best, the best of them trained twice."""
    for name, recipe in RECIPES.items():
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=replace(recipe.train, epochs=8, patience=0)))

    def choose(results, data, group=None):
        first, second, *_ = (name for name, _ in results)
        return Blend({first: 0.7, second: 0.3}, 0.02)

    monkeypatch.setattr("gpnn.race.halving.choose_blend", choose)
    monkeypatch.setattr("gpnn.race.record.TRAININGS", 2)


def write_graph(path, numbers=False):
    """A folder whose edges go one way, so that recipes take them differently."""
    path.mkdir()
    names = [f"{node * 0.37 + 1}" if numbers else "ab"[node % 2] for node in range(60)]
    splits = ["train", "val", "test"]
    people = [f"{node},{names[node]},{node % 2 + node / 100},{splits[node // 2 % 3]}" for node in range(60)]
    (path / "nodes.csv").write_text("\n".join(["id,label,age,split", *people]) + "\n")
    edges = [f"{node},{(node + step) % 60}" for node in range(60) for step in (2, 4)]
    (path / "edges.csv").write_text("\n".join(["source,target", *edges]) + "\n")
    return path


def begin(path, graph):
    config, problems = parse_config({"recipe": "auto", "data": {"name": str(graph)}})
    assert not problems
    return begin_run(lambda: config, path, before=lambda config: Race(config.to_toml(), ()))


def train(path, graph):
    run, begun = begin(path, graph)
    train_run(run, race_run(run, begun), report=False)
    return run


def predictions(run):
    from pyarrow import parquet

    return parquet.read_table(run.predictions)


@pytest.mark.thorough
def test_a_blended_run_is_a_run_like_any_other(tmp_path):
    graph = write_graph(tmp_path / "graph")
    run = train(tmp_path / "run", graph)
    race, config, trained = read_race(run.race), load_run_config(run), read_trained(run)
    winner, other = race.record.blend.weights
    assert race.winner == winner == config.recipe
    assert run.read_metrics()["num_members"] == 4
    member = RunFolder.open(run.members / other)
    others = [(each.weight, each.config.recipe, each.config.seed) for each in trained.members]
    assert others == [(0.35, winner, 1_000_000), (0.15, other, 0), (0.15, other, 1_000_000)]

    data = build_data(trained.as_read(config))
    shares = [predictions(each)["p_a"].to_numpy() for each in (run, member)]
    again = predict_trained(read_trained(run), config, data)["p_a"].to_numpy()
    own = load_run_config(member)
    alone = predict_trained(read_trained(member), own, build_data(own))["p_a"].to_numpy()
    assert again.tolist() == shares[0].tolist()
    assert alone.tolist() == shares[1].tolist()
    assert again.tolist() != alone.tolist()

    explained = explain_run(run, "7")
    assert explained.probability == pytest.approx(max(again[7], 1 - again[7]), abs=1e-6)
    assert report_run(run.path).read_text().rstrip().endswith("</html>")


def test_a_run_that_learnt_logarithms_is_blended_with_one_that_did_not(tmp_path, monkeypatch):
    for name, recipe in RECIPES.items():
        scale = "log" if name == "features" else "linear"
        monkeypatch.setitem(RECIPES, name, replace(recipe, train=replace(recipe.train, target_scale=scale)))
    weights = {"features": 0.6, "columns": 0.4}
    monkeypatch.setattr("gpnn.race.halving.choose_blend", lambda *given: Blend(weights, 0.1))
    run = train(tmp_path / "run", write_graph(tmp_path / "graph", numbers=True))
    trained = read_trained(run)
    assert [each.scale for each in (trained.task, trained.own_task)] == ["linear", "log"]
    assert {each.trained.task.scale for each in trained.members if each.config.recipe == "columns"} == {"linear"}


@pytest.mark.thorough
@pytest.mark.parametrize("numbers", [False, True], ids=["classes", "numbers"])
def test_estimator_and_command_line_blend_to_the_same_bits(tmp_path, numbers):
    graph = write_graph(tmp_path / "graph", numbers)
    run = train(tmp_path / "run", graph)
    data = gpnn.load_dataset(graph)
    estimator = (GPNNRegressor if numbers else GPNNClassifier)().fit(data)
    mixture = read_race(run.race).record.mixture.weights
    assert {
        estimator.recipe_: estimator.weight_,
        **{name: weight for name, (weight, _) in estimator.members_.items()},
    } == mixture
    assert {**estimator.metrics_, "seconds": 0} == {
        name: 0 if name == "seconds" else value
        for name, value in run.read_metrics().items()
        if name in estimator.metrics_
    }
    frame, table = estimator.predict_frame(data), predictions(run)
    for name in ("prediction", "low", "high") if numbers else ("prediction", "confidence", "p_a"):
        assert frame[name].to_pylist() == table[name].to_pylist()
    estimator.save(tmp_path / "saved")
    loaded = type(estimator).load(tmp_path / "saved")
    assert loaded.predict_frame(data).equals(frame)
    if not numbers:
        assert loaded.explain(data, "7") == estimator.explain(data, "7")
    shutil.rmtree(tmp_path / "saved" / "members")
    with pytest.raises(ValueError, match="must hold a saved"):
        type(estimator).load(tmp_path / "saved")


class Killed(Exception):
    pass


@pytest.mark.thorough
@pytest.mark.parametrize("act", ["race.write_member", "race.RunFolder.take_checkpoint", "race._adopt", "again"])
def test_a_kill_between_race_and_run_is_resumed_to_the_same_bits(tmp_path, monkeypatch, act):
    graph = write_graph(tmp_path / "graph")
    whole = train(tmp_path / "whole", graph)
    run, begun = begin(tmp_path / "run", graph)

    def die(*given):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr("gpnn.race.record.name_training" if act == "again" else f"gpnn.build.{act}", die)
        with pytest.raises(Killed):
            race_run(run, begun)
    assert read_race(run.race).winner is None
    run, begun = open_run(run.path)
    train_run(run, race_run(run, begun), report=False)
    assert not (run.path / "race").exists()
    assert predictions(run).equals(predictions(whole))
    ours, theirs = run.read_model()[0], whole.read_model()[0]
    assert all(torch.equal(ours[key], theirs[key]) for key in theirs)


def test_what_a_file_says_of_members_is_not_believed(tmp_path):
    run = train(tmp_path / "run", write_graph(tmp_path / "graph"))
    weights, described = run.read_model()
    for wrong in ({"weights": [["spread", 0.5], ["../../etc", 0.5]]}, {"weights": []}, 3):
        blend = {**described["blend"], **wrong} if isinstance(wrong, dict) else wrong
        run.write_model(weights, {**described, "blend": blend})
        with pytest.raises(ValueError, match=r"model\.safetensors must hold a blend\. Got"):
            read_trained(run)
    run.write_model(weights, described)
    shutil.rmtree(run.members)
    with pytest.raises(ValueError, match=r"A run folder must hold config\.toml"):
        read_trained(run)


def test_a_user_may_want_one_model(tmp_path):
    run, begun = begin(tmp_path / "run", write_graph(tmp_path / "graph"))
    begun = replace(begun, config=replace(begun.config, blend=False))
    race_run(run, begun)
    assert read_race(run.race).record.blend is None
    assert not run.members.exists()


SHARED = ["data.name=planted", "data.num_nodes=90", "data.num_classes=3", "data.num_features=8", "data.label_rate=0.3"]
SHARED += ["recipe=auto", "device=cpu", "partition.k=4"]


@pytest.mark.thorough
def test_several_processes_race_stop_go_on_and_blend(processes, tmp_path):
    whole, parts = (processes(race_case, tmp_path / name, SHARED, name == "parts") for name in ("whole", "parts"))
    assert all(each == whole[0] for each in (*whole, *parts))
    winner, (rows, blend) = whole[0]
    assert len({row["name"] for row in rows}) > 2
    assert next(iter(blend.weights)) == winner
    run = RunFolder.open(tmp_path / "whole")
    assert predictions(run).equals(predictions(RunFolder.open(tmp_path / "parts")))
    config, trained = load_run_config(run), read_trained(run)
    assert [each.config.seed for each in trained.members] == [1_000_000, 2_000_000, 0, 1_000_000, 2_000_000]
    again = predict_trained(read_trained(run), config, build_data(trained.as_read(config)))
    table = predictions(run)
    assert again["p_0"].to_pylist() == pytest.approx(table["p_0"].to_pylist(), abs=1e-4)


def test_processes_race_what_fits_in_all_of_them(processes, tmp_path):
    found = processes(race_case, tmp_path / "run", SHARED, False, "linear")
    assert all(each == found[0] for each in found)
    noted = json.loads(RunFolder.open(tmp_path / "run").race.read_text())["record"]
    assert set(noted["costs"]) == {"convolution", "residual", "gcn", "deep"}
    assert set(noted["too_large"]) == {"spread", "averaged"}
