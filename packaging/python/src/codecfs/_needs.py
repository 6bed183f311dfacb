"""Packages that only some functions need."""
from __future__ import annotations

import importlib
from typing import Any


def need(module: str, what: str) -> Any:
    """Imports a module, or raises an ImportError that says what needs it and how it is installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(f"{what} needs {module}, which cannot be imported ({error}): pip install {module}", name=module) from error
