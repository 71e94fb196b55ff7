"""Configuration: the sections of a run's TOML file, read and written."""

from gpnn.config.parse import nearest_setting, parse_config, read_settings, setting_names, unknown_setting
from gpnn.config.sections import SECTIONS, Config, DataConfig, ModelConfig, PartitionConfig, ScheduleConfig

__all__ = [
    "SECTIONS",
    "Config",
    "DataConfig",
    "ModelConfig",
    "PartitionConfig",
    "ScheduleConfig",
    "nearest_setting",
    "parse_config",
    "read_settings",
    "setting_names",
    "unknown_setting",
]
