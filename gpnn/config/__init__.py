"""Configuration: the sections of a run's TOML file, read and written."""

from gpnn.config.parse import parse_config, read_settings, setting_names, sound_config
from gpnn.config.sections import SECTIONS, Config, DataConfig, ModelConfig, PartitionConfig, ScheduleConfig

__all__ = [
    "SECTIONS",
    "Config",
    "DataConfig",
    "ModelConfig",
    "PartitionConfig",
    "ScheduleConfig",
    "parse_config",
    "read_settings",
    "setting_names",
    "sound_config",
]
