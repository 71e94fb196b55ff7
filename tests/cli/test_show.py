from gpnn.cli.show import table


def test_the_first_column_is_text_and_the_others_are_figures():
    result = table(["name", "count"], [("a", 1000)])
    assert [column.justify for column in result.columns] == ["left", "right"]
    assert list(result.columns[1].cells) == ["1,000"]
