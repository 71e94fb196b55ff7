import pytest

from gpnn.train import Recipe


def test_all_mistakes_are_named_at_once():
    with pytest.raises(ValueError, match=r"`epochs` must be at least 1. Got 0.*`learning_rate` must be greater than 0"):
        Recipe(epochs=0, learning_rate=-1.0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"optimizer": "adan"}, r"`optimizer` must be one of adam, adamw, lazy_adam, sgd, rmsprop. Got 'adan'."),
        ({"learning_rate_schedule": "x"}, r"`learning_rate_schedule` must be one of constant, cosine"),
        ({"metric": "recall"}, r"`metric` must be one of auto, loss, accuracy"),
        ({"decay_on": "none"}, r"`decay_on` must be 'all_but_embeddings' or 'matrices' or 'all'. Got 'none'."),
        (
            {"class_weight": "even"},
            r"`class_weight` must be 'none' or 'balanced' or a list .* Got 'even'.",
        ),
        ({"consistency": 1.0}, r"`consistency` needs `passes` of at least 2. Got 1."),
        ({"label_smoothing": 1.5}, r"`label_smoothing` must be at most 1. Got 1.5."),
        ({"class_weight": (1.0, -1.0)}, r"`class_weight` must hold numbers from 0. Got \(1.0, -1.0\)."),
        ({"epochs": "5", "patience": 2.5}, r"`epochs` must be an integer. Got '5'. `patience` must be an integer."),
        ({"clip": float("nan")}, r"`clip` must be at least 0. Got nan."),
    ],
)
def test_mistakes_name_the_value_and_the_choices(settings, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**settings)
