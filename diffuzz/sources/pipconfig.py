"""The user's pip settings, read where pip reads them, without pip being installed.

Only what says how to reach a package index. Precedence is pip's: environment over the file of the
Python environment over the user's over the machine's, and a command's section over ``[global]``.
https://pip.pypa.io/en/stable/topics/configuration/
"""

from __future__ import annotations

import configparser
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pypi_simple import PYPI_SIMPLE_ENDPOINT

from diffuzz.errors import UsageError

_SECTIONS = ("global", "download")
_OPTIONS = (
    *("index-url", "extra-index-url", "no-index", "trusted-host"),
    *("cert", "client-cert", "proxy", "timeout"),
)
_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}


@dataclass(frozen=True)
class PipConfig:
    """How to reach the package indexes.

    ``indexes`` are asked in order; none means ``no-index``. ``trusted_hosts`` are names, perhaps
    with a port, whose certificates are not checked. ``timeout`` is in seconds.
    """

    indexes: tuple[str, ...] = (PYPI_SIMPLE_ENDPOINT,)
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = 15.0


def read_pip_config(environ: Mapping[str, str] | None = None) -> PipConfig:
    """The settings in force. Raises :class:`UsageError` naming the file or variable that is
    malformed."""
    environ = os.environ if environ is None else environ
    found: dict[str, str] = {}
    for file in _files(environ):
        found.update(_file_options(file))
    for option in (*_ALIASES, *_OPTIONS):
        # Like pip, an empty variable counts as unset.
        if value := environ.get("PIP_" + option.upper().replace("-", "_")):
            found[_ALIASES.get(option, option)] = value
    indexes = (
        found.get("index-url", PYPI_SIMPLE_ENDPOINT),
        *found.get("extra-index-url", "").split(),
    )
    if found.get("no-index", "").lower() in ("1", "true", "yes", "on", "y", "t"):
        indexes = ()
    try:
        timeout = float(found.get("timeout", PipConfig.timeout))
    except ValueError:
        raise UsageError(f"pip's setting timeout is not a number: {found['timeout']!r}") from None
    return PipConfig(
        tuple(dict.fromkeys(index.rstrip("/") + "/" for index in indexes)),
        tuple(found.get("trusted-host", "").split()),
        found.get("cert"),
        found.get("client-cert"),
        found.get("proxy"),
        timeout,
    )


def _files(environ: Mapping[str, str]) -> Iterator[Path]:
    """Configuration files, the weakest first."""
    chosen = environ.get("PIP_CONFIG_FILE")
    if chosen == os.devnull:
        return
    home = Path(environ.get("HOME") or os.path.expanduser("~"))
    config = Path(environ.get("XDG_CONFIG_HOME") or home / ".config")
    if sys.platform == "darwin":
        library = Path("Library/Application Support/pip/pip.conf")
        yield Path("/") / library
        user = home / library if (home / library).parent.is_dir() else config / "pip/pip.conf"
    else:
        for folder in (environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(":"):
            yield Path(folder) / "pip/pip.conf"
        yield Path("/etc/pip.conf")
        user = config / "pip/pip.conf"
    yield from (home / ".pip/pip.conf", user, Path(sys.prefix) / "pip.conf")
    if chosen:
        yield Path(chosen)


def _file_options(file: Path) -> dict[str, str]:
    parser = configparser.RawConfigParser()
    try:
        parser.read(file, encoding="utf-8")
    except (configparser.Error, UnicodeDecodeError) as error:
        why = str(error).splitlines()[0]
        raise UsageError(f"pip's configuration {file} cannot be read: {why}") from None
    found = {}
    for section in _SECTIONS:
        if parser.has_section(section):
            for option, value in parser.items(section):
                name = option.replace("_", "-")
                name = _ALIASES.get(name, name)
                if name in _OPTIONS:
                    found[name] = value
    return found
