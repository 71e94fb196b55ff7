from dataclasses import replace

from gpnn.report.baselines import baselines


def test_the_run_stands_first_and_each_plain_method_has_a_row(record):
    found = {"majority": {"val_accuracy": 0.25, "test_accuracy": 0.5, "seconds": 0.1}, "other": {"test_accuracy": 0.75}}
    metrics = {**record.metrics, "val_accuracy": 0.9, "test_accuracy": 0.8, "seconds": 2.0}
    metrics = {name: value for name, value in metrics.items() if not name.endswith("recall")}
    table = baselines(replace(record, metrics=metrics, baselines=found)).parts[0]
    assert table.columns == ("", "validation accuracy", "test accuracy", "seconds")
    assert table.rows == [
        ("this run", "90.0 %", "80.0 %", "2.0"),
        ("the most frequent class", "25.0 %", "50.0 %", "0.1"),
        ("other", "–", "75.0 %", "–"),
    ]


def test_no_section_where_none_was_run(record):
    assert baselines(replace(record, baselines={})) is None
