from gpnn.data import DATASETS


def test_list_names_every_dataset(gpnn):
    result = gpnn("data", "list")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in DATASETS)


def test_describe_prints_what_was_understood_and_chosen(gpnn, tiny):
    result = gpnn("data", "describe", *tiny[:5])
    assert result.exit_code == 0, result.output
    rows = {
        cells[1].strip(): cells[2].strip() for line in result.stdout.splitlines() if len(cells := line.split("│")) == 4
    }
    assert (rows["nodes"], rows["features"], rows["classes"]) == ("120", "20", "3")
    assert int(rows["0"]) + int(rows["1"]) + int(rows["2"]) == 120
    assert {"GPNN would choose", "subgraphs", "rounds", "hidden channels", "model input"} <= set(rows)
    assert float(rows["homophily (edges within a class)"]) > 0.5


def shown(result) -> set[str]:
    return {cells[1].strip() for line in result.stdout.splitlines() if len(cells := line.split("│")) == 4}


def test_check_a_generated_dataset_and_a_missing_one(gpnn, tmp_path):
    assert gpnn("data", "check", "digits").exit_code == 0
    result = gpnn("data", "check", "cora", "--root", tmp_path)
    assert result.exit_code == 2
    assert "missing" in result.stdout


def test_fetch_what_needs_no_files(gpnn):
    result = gpnn("data", "fetch", "planted")
    assert result.exit_code == 0
    assert "planted: nothing to fetch" in result.stderr


def test_a_folder_of_tables(gpnn, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "nodes.csv").write_text("id,label,split\na,cat,train\nb,dog,train\nc,,\nd,cat,val\n")
    (folder / "edges.csv").write_text("source,target\na,b\nb,c\nc,d\n")
    assert gpnn("data", "check", "mine").exit_code == 0
    result = gpnn("data", "describe", "mine")
    assert {"nodes by class", "cat", "dog", "edges without a reverse"} <= shown(result)
    assert "note: no node validates" not in result.stderr
    result = gpnn("train", "mine", "train.epochs=2", "data.undirected=true", "--out", "run", "-q", "--no-report")
    assert result.exit_code == 0, result.output
    assert str(folder) in (tmp_path / "run" / "config.toml").read_text()
    assert gpnn("predict", "run", "mine", "--out", "predicted.csv", "-q").exit_code == 0
    lines = (tmp_path / "predicted.csv").read_text().splitlines()
    assert lines[0] == '"node","prediction","confidence","second","margin","labelled","label","new","p_cat","p_dog"'
    assert [line.split(",")[0] for line in lines[1:]] == ['"a"', '"b"', '"c"', '"d"']


def test_an_unknown_dataset_is_one_sentence(gpnn):
    result = gpnn("data", "describe", "corra")
    assert result.exit_code == 2
    assert "Got 'corra'" in result.stderr
