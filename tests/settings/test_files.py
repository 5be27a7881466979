"""Configuration files, the data directory and the server secret."""

from __future__ import annotations

import multiprocessing
import stat
from pathlib import Path

import pytest

from askonce.config import Config, TenantConfig
from askonce.errors import ConfigError
from askonce.settings import (
    Setting,
    data_dir,
    find_config_file,
    hand_over,
    load_config,
    server_secret,
    take_over,
)


def test_the_data_directory_follows_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG_DATA_HOME is followed when absolute, else the home directory is used."""
    monkeypatch.setenv("HOME", "/home/x")
    assert data_dir({"XDG_DATA_HOME": "/d"}) == Path("/d/askonce")
    assert data_dir({"XDG_DATA_HOME": "d"}) == Path("/home/x/.local/share/askonce")
    assert data_dir({}) == Path("/home/x/.local/share/askonce")


def test_a_configuration_file_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The named file comes before the working directory, and that before the home."""
    monkeypatch.chdir(tmp_path)
    environ = {"XDG_CONFIG_HOME": str(tmp_path / "home")}
    assert find_config_file(environ) is None
    home = tmp_path / "home" / "askonce" / "askonce.toml"
    home.parent.mkdir(parents=True)
    home.touch()
    assert find_config_file(environ) == home
    Path("askonce.toml").touch()
    assert find_config_file(environ) == Path("askonce.toml")
    assert find_config_file({"ASKONCE_CONFIG": "/c.toml"}) == Path("/c.toml")


def test_all_origins_make_one_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """File, environment and flags are read in that order, and the data directory is resolved."""
    monkeypatch.chdir(tmp_path)
    Path("c.toml").write_text("[server]\nport = 1\nworkers = 3")
    flags = [Setting(("server", "data_dir"), "d", "--data-dir", text=True)]
    config = load_config(Path("c.toml"), {"ASKONCE_SERVER__PORT": "2"}, flags)
    assert (config.server.port, config.server.workers) == (2, 3)
    assert config.server.data_dir == str(tmp_path / "d")
    assert load_config(None, {"XDG_DATA_HOME": "/x"}).server.data_dir == "/x/askonce"


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"[server\n", "is not valid TOML"), (b"\xff", "is not UTF-8 text"), (None, "there is no")],
)
def test_an_unreadable_file_is_told_in_plain_words(
    tmp_path: Path, content: bytes | None, words: str
) -> None:
    """A file that is missing or broken raises with its path."""
    path = tmp_path / "askonce.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        load_config(path, {})


def test_a_directory_in_place_of_a_file_is_told(tmp_path: Path) -> None:
    """A path that cannot be read raises with the system's reason."""
    with pytest.raises(ConfigError, match="cannot be read: Is a directory"):
        load_config(tmp_path, {})


def test_workers_take_over_the_tree() -> None:
    """What a parent hands over is what a worker takes over, secrets included."""
    config = Config(tenants=TenantConfig(secret="s"))
    assert take_over(hand_over(config)) == config
    with pytest.raises(ConfigError, match="does not hold a configuration"):
        take_over({"ASKONCE_HANDED_OVER": "{"})
    assert take_over({"XDG_DATA_HOME": "/x"}).server.data_dir == "/x/askonce"


def test_the_secret_is_made_once_and_private(tmp_path: Path) -> None:
    """The first call makes a secret that only its owner can read; later calls return it."""
    directory = tmp_path / "new"
    secret = server_secret(directory)
    assert len(secret) == 32
    assert server_secret(directory) == secret
    assert stat.S_IMODE((directory / "secret").stat().st_mode) == 0o600
    assert [path.name for path in directory.iterdir()] == ["secret"]


def test_processes_that_race_get_one_secret(tmp_path: Path) -> None:
    """Processes that start at the same time all end with the same secret."""
    with multiprocessing.get_context("spawn").Pool(3) as pool:
        secrets = pool.map(server_secret, [tmp_path] * 30, chunksize=1)
    assert len(set(secrets)) == 1


def test_the_slower_of_two_takes_the_others_secret(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process that finds no secret, but loses the race to make one, uses the winner's."""
    first = server_secret(tmp_path)
    monkeypatch.setattr(Path, "exists", lambda _self: False)
    assert server_secret(tmp_path) == first


@pytest.mark.parametrize("content", ["", "zz", "abcd"])
def test_a_damaged_secret_is_told(tmp_path: Path, content: str) -> None:
    """A secret that is cut or not hexadecimal is refused, never used."""
    (tmp_path / "secret").write_text(content)
    with pytest.raises(ConfigError, match="is damaged"):
        server_secret(tmp_path)


def test_a_directory_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """A data directory below a file raises with the system's reason."""
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="cannot be used: File exists"):
        server_secret(tmp_path / "file")
