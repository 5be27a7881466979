"""The files that settings come from and go to."""

from __future__ import annotations

import contextlib
import os
import secrets
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from askonce.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE_NAME = "askonce.toml"
SECRET_LENGTH = 32


def _base(environ: Mapping[str, str], variable: str, fallback: str) -> Path:
    chosen = environ.get(variable, "")
    return Path(chosen) if Path(chosen).is_absolute() else Path.home() / fallback


def data_dir(environ: Mapping[str, str]) -> Path:
    """The platform's directory for databases and the server secret; need not exist."""
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "askonce"


def find_config_file(environ: Mapping[str, str]) -> Path | None:
    """The file that `ASKONCE_CONFIG` names, else one in the working or configuration directory."""
    if named := environ.get("ASKONCE_CONFIG"):
        return Path(named).expanduser()
    home = _base(environ, "XDG_CONFIG_HOME", ".config") / "askonce" / FILE_NAME
    return next((path for path in (Path(FILE_NAME), home) if path.is_file()), None)


def read_toml(path: Path) -> dict[str, Any]:
    """Parse a configuration file; raises ConfigError in plain words."""
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"there is no configuration file {path}") from None
    except OSError as reason:
        raise ConfigError(f"{path} cannot be read: {reason.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{path} is not UTF-8 text") from None
    except tomllib.TOMLDecodeError as reason:
        raise ConfigError(f"{path} is not valid TOML: {reason}") from None


def make_data_dir(directory: Path) -> None:
    """Make it, for its owner alone, where it is missing; raises ConfigError when it is no use."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as reason:
        raise ConfigError(f"{directory} cannot be used: {reason.strerror}") from None
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise ConfigError(f"{directory} cannot be written: choose another by --data-dir")


def known_secret(directory: Path) -> bytes | None:
    """The secret if one was made; changes nothing."""
    return server_secret(directory) if (directory / "secret").exists() else None


def admin_token(directory: Path) -> str:
    """The admin token kept in a data directory, made on first use."""
    return _kept(directory / "admin-token").hex()


def server_secret(directory: Path) -> bytes:
    """The secret kept in a data directory, made on first use; the same for all processes."""
    return _kept(directory / "secret")


def _kept(path: Path) -> bytes:
    try:
        if not path.exists():
            make_data_dir(path.parent)
            _create_once(path, secrets.token_bytes(SECRET_LENGTH).hex())
        secret = bytes.fromhex(path.read_text("ascii").strip())
    except OSError as reason:
        raise ConfigError(f"{path} cannot be used: {reason.strerror}") from None
    except ValueError:
        secret = b""
    if len(secret) < SECRET_LENGTH:
        raise ConfigError(f"{path} is damaged; remove it to have a new one made")
    return secret


def _create_once(path: Path, text: str) -> None:
    """Make a private file appear whole, unless another process was first."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    descriptor = os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, path)
    finally:
        draft.unlink()
