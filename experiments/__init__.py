"""Experiments: named scenarios, Ray Tune studies over methods and seeds, and the reports of their rows.

The only package that imports both ``bippo_rllib`` and ``envs``. Start at ``bippo tune --help``.
"""

from experiments.shadowed_packages import what_is_in_the_way

if _message := what_is_in_the_way():
    raise ImportError(_message, name=__name__)  # with this name, `python -m` prints it as one line
