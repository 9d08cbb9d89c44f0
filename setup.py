"""Finds the packages. All else stands in setup.cfg, which can find packages only in one folder: migrations/ lies beside minova/."""

from setuptools import find_packages, setup

setup(packages=[*find_packages(include=["minova", "minova.*"]), "minova.migrations", "minova.migrations.versions"])
