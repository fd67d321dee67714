"""Where results come from: by which code, with which packages, on which machine."""

from __future__ import annotations

import datetime
import importlib.metadata
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

PROJECT = "bippo-rllib"
_LIBRARIES = ("ray", "torch", "torchvision", "numpy", "pandas", "pyarrow", "scikit-learn", "gymnasium", "pettingzoo")


def code_and_time() -> dict[str, Any]:
    """Returns ``started`` in ISO format, ``commit`` and ``packages``."""
    started = datetime.datetime.now().astimezone().isoformat(timespec="seconds")
    return {"started": started, "commit": git_commit(), "packages": package_versions()}


def git_commit() -> str | None:
    """Returns the commit of the checkout this file is in, with ``+changes`` if the work tree differs.

    None without git, and where this file is installed below the checkout of another project.
    """
    file = Path(__file__).resolve()
    folder = file.parent
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None or _git(folder, "ls-files", "--error-unmatch", file.name) is None:
        return None
    return f"{commit}+changes" if _git(folder, "status", "--porcelain", "--untracked-files=no") else commit


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def package_versions() -> dict[str, str]:
    """Returns the versions of the packages a result may depend on."""
    return {name: version for name in (PROJECT, *_LIBRARIES) if (version := _version(name)) is not None}


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def machine() -> dict[str, Any]:
    """Returns the operating system, the version of Python, the number of cores and the names of GPUs."""
    import torch

    gpus = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    return {"platform": platform.platform(), "python": sys.version.split()[0], "cores": os.cpu_count(), "gpus": gpus}
