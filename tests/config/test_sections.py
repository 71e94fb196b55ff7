import tomllib

from gpnn.config import Config, DataConfig, ModelConfig, parse_config
from gpnn.train import Recipe


def test_a_configuration_survives_its_own_file():
    config = Config(
        seed=4,
        device="cpu",
        data=DataConfig("nell", root="/somewhere", options={"rate": 0.001}),
        model=ModelConfig(head=(4, 2), cell_options={"alpha": 0.1}),
        train=Recipe(class_weight=(1.0, 2.5), weight_decay=1e-5),
    )
    assert parse_config(tomllib.loads(config.to_toml())) == (config, [])
