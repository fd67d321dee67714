"""Experiments: named scenarios, Ray Tune studies over methods and seeds, and what is computed from their rows.

The only package that imports both ``bippo_rllib`` and ``envs``. Start at ``python -m experiments.tune_bippo --help``.
"""
