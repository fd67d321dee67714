"""Rebuilds the pages that come from docstrings: ``python docs/generate.py``."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS.parent))


def environment_page() -> str:
    """The specification of the environment, from the docstrings of ``envs``."""
    from envs import FederatedRounds, FederationConfig, federated_rounds

    specification = inspect.getdoc(federated_rounds)
    title, _, body = specification.partition("\n\n")
    return "\n".join(
        [
            "# The environment",
            "",
            "<!-- Generated from the docstrings of envs/ by docs/generate.py; edit those. -->",
            "",
            title.replace("FederatedRounds:", "`envs.FederatedRounds`:"),
            "",
            body.replace("``", "`"),
            "",
            "## FederatedRounds",
            "",
            _as_markdown(inspect.getdoc(FederatedRounds)),
            "",
            "## FederationConfig",
            "",
            "`envs.parallel_env(**keywords)` takes the same keywords.",
            "",
            _as_markdown(inspect.getdoc(FederationConfig)),
            "",
        ]
    )


def _as_markdown(docstring: str) -> str:
    """Google-style sections as bold words and lists."""
    lines = []
    for line in docstring.splitlines():
        if line in ("Args:", "Attributes:", "Raises:", "Returns:"):
            lines += [f"**{line[:-1]}**", ""]
        elif line.startswith("    ") and not line.startswith("     ") and ":" in line:
            name, _, text = line.strip().partition(":")
            lines.append(f"- `{name}`:{text}")
        elif line.startswith("     "):
            lines.append(f"  {line.strip()}")
        else:
            lines.append(line.replace("``", "`"))
    return "\n".join(lines).replace("``", "`")


PAGES = {"environment.md": environment_page}

if __name__ == "__main__":
    for name, make in PAGES.items():
        (DOCS / name).write_text(make(), encoding="utf-8")
        print(DOCS / name)
