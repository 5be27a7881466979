"""From what the operator wrote to one `Config`: defaults < TOML file < environment < flags."""

from askonce.settings.files import (
    admin_token,
    data_dir,
    find_config_file,
    known_secret,
    make_data_dir,
    server_secret,
)
from askonce.settings.load import (
    HANDED_OVER,
    hand_over,
    load_config,
    refuse_key_alone,
    take_over,
)
from askonce.settings.parse import Setting, build, from_environ, from_table

__all__ = [
    "HANDED_OVER",
    "Setting",
    "admin_token",
    "build",
    "data_dir",
    "find_config_file",
    "from_environ",
    "from_table",
    "hand_over",
    "known_secret",
    "load_config",
    "make_data_dir",
    "refuse_key_alone",
    "server_secret",
    "take_over",
]
