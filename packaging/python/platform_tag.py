"""Hatchling's hook: the wheel is for one platform, which scripts/make-wheel finds out by the symbols that its files need."""
import os
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PlatformTag(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        platform = os.environ.get("CODECFS_WHEEL_PLATFORM")
        if not platform:
            raise RuntimeError("this wheel carries a program: build it with scripts/make-wheel")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
