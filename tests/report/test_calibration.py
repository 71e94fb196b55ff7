import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gpnn.report.answers import BINS, bin_answers
from gpnn.report.calibration import calibration, reliability


def slow_error(confidence: list[float], right: list[bool]) -> float:
    """Σ_b n_b/n · |accuracy_b − confidence_b|, a bin at a time."""
    error = 0.0
    for number in range(BINS):
        members = [i for i, c in enumerate(confidence) if min(int(c * BINS), BINS - 1) == number]
        if members:
            sure = sum(confidence[i] for i in members) / len(members)
            good = sum(right[i] for i in members) / len(members)
            error += len(members) / len(confidence) * abs(good - sure)
    return error


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
@settings(max_examples=50, deadline=None)
def test_the_error_is_the_definition(pairs):
    confidence, right = (list(column) for column in zip(*pairs))
    found = reliability(bin_answers(torch.tensor(confidence, dtype=torch.float64), torch.tensor(right)))
    assert found.error == pytest.approx(slow_error(confidence, right), abs=1e-8)
    assert int(found.count.sum()) == len(pairs)


def test_a_calibrated_model_has_no_error():
    right = torch.tensor([True, True, True, False, True, True])
    found = reliability(bin_answers(torch.tensor([0.75] * 4 + [1.0] * 2), right))
    assert found.error == 0
    assert found.bin.tolist() == [7, 9]
    assert found.accuracy.tolist() == [0.75, 1.0]


def test_the_section_names_each_split(record):
    section = calibration(record)
    assert list(section.parts[0].views) == ["test", "validation"]
    assert "on test" in section.lead
    assert "on validation" in section.lead
