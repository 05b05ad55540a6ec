"""What a run was made with: versions, git state, and an allow-list of environment variables without secrets."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from typing import Any, Final

ALLOWED: Final = re.compile(
    r"(NCCL|RCCL|TORCH|TORCHELASTIC|PYTORCH|CUDA|NVIDIA|HIP|ROCR|GLOO|UCX|FI|OMP|MKL|KMP|SLURM|OMPI_COMM|PMI|RANKSCOPE)_"
    r"|(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|GROUP_RANK|MASTER_ADDR|MASTER_PORT|PYTHONHASHSEED|PYTHONMALLOC)\Z"
)
SECRET: Final = re.compile(r"SECRET|TOKEN|PASSW|CREDENTIAL|AUTH|COOKIE|API_?KEY|PRIVATE|JWT|_KEY", re.IGNORECASE)
CREDENTIALS: Final = re.compile(r"(?<=://)[^/@\s]*@")
MAX_VALUE: Final = 500  # characters; Slurm's node lists are longer than anyone reads
LIBRARIES: Final = ("torch", "numpy", "triton", "transformers", "lightning", "pytorch_lightning", "accelerate", "deepspeed")


def environment() -> dict[str, str]:
    """The allowed variables, without what looks like a secret and without credentials in addresses."""
    return {
        name: CREDENTIALS.sub("", value)[:MAX_VALUE]
        for name, value in sorted(os.environ.items())
        if ALLOWED.match(name) and not SECRET.search(name)
    }


def versions() -> dict[str, str]:
    """Of Python, the system, and the libraries that the program has loaded; nothing is imported for it."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.release()} {platform.machine()}"}
    for name in LIBRARIES:
        version = getattr(sys.modules.get(name), "__version__", None)
        if version is not None:
            found[name] = str(version)
    built = getattr(sys.modules.get("torch"), "version", None)
    for name in ("cuda", "hip"):
        if getattr(built, name, None):
            found[name] = str(getattr(built, name))
    return found


def device_name() -> str | None:
    """The current device's name; None on a CPU, or while the program has not begun to use its device."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return None
    return str(cuda.get_device_name())


def git_state() -> dict[str, Any] | None:
    """Commit of the working directory and whether it was changed; None outside a repository or without git."""
    commit = _git("rev-parse", "HEAD")
    if commit is None:
        return None
    changed = _git("status", "--porcelain", "--untracked-files=no")
    return {"commit": commit.strip(), "dirty": None if changed is None else bool(changed.strip())}


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", *arguments], capture_output=True, text=True, timeout=2, check=True
        )
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return done.stdout
