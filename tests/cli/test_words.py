import pytest

from gpnn.cli.words import given_settings, read_config, split_words


def test_one_dataset_among_settings():
    assert split_words(["train.epochs=5", "cora", "seed=1"]) == ("cora", ["train.epochs=5", "seed=1"])
    assert split_words(None) == (None, [])


def test_two_datasets_are_refused():
    with pytest.raises(ValueError, match=r"There must be one dataset or folder.*Got cora, nell"):
        split_words(["cora", "nell"])


def test_a_folder_is_kept_by_its_whole_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine=1").mkdir()
    assert read_config(["mine=1"]).data.name == str(tmp_path / "mine=1")
    assert read_config(["cora"], root=tmp_path).data.root == str(tmp_path)


def test_a_dataset_wins_over_a_folder_of_its_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "digits").mkdir()
    assert read_config(["digits"]).data.name == "digits"


def test_given_settings(tmp_path):
    (tmp_path / "a.toml").write_text("seed = 1\n[model]\ncell = 'gru'\n")
    assert given_settings(["train.epochs=3"], tmp_path / "a.toml") == ["seed", "model.cell", "train.epochs"]
