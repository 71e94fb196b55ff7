from gpnn.build import Search
from gpnn.build.search import SPACE, best_trial
from gpnn.config import Config


def search(num: int, **options) -> Search:
    return Search(num, Config(seed=options.pop("seed", 0)).to_toml(), **options)


def test_trials_start_with_the_base_and_are_distinct_and_seeded():
    trials = list(search(20).trials())
    assert len(trials) == 20
    assert trials[0] == {}
    assert len({str(trial) for trial in trials}) == 20
    assert trials == list(search(20).trials())
    assert trials[1:] != list(search(20, seed=1).trials())[1:]


def test_every_answer_of_the_space_is_a_valid_configuration():
    for row in SPACE:
        for answer in row:
            search(1).config(answer)


def test_what_the_user_has_set_is_left_alone():
    trials = list(search(30, fixed=("train.passes", "model.dropout")).trials())
    assert not any({"train.consistency", "model.drop_node", "model.dropout"} & set(trial) for trial in trials)


def test_a_space_that_runs_dry_ends():
    everything = tuple(key for row in SPACE for answer in row for key in answer)
    assert list(search(5, fixed=everything).trials()) == [{}]


def test_the_best_trial():
    trials = [{"value": 0.5, "val_loss": 1.0}, {"value": None, "val_loss": None}, {"value": 0.5, "val_loss": 0.9}]
    assert best_trial(trials) is trials[2]
