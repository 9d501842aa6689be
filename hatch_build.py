"""What depends on where a release is built: the project's addresses, and the links of the README in the package index.

A build elsewhere names no addresses, rather than a place that may be somebody else's, and leaves the README as it is.
"""

import os
import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface

LINK = re.compile(r"(!?)(\[[^]]*\]\()(?!https?:|#)")
"""A link or a picture, up to its target in the repository."""


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        place = os.environ.get("HEATPROOF_REPOSITORY") or github()
        pages = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
        metadata["urls"] = {name: place + page for name, page in pages.items()} if place else {}
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": absolute(text, place) if place else text}


def absolute(text: str, place: str) -> str:
    """Links and pictures that work outside of the repository, where relative ones lead nowhere."""
    return LINK.sub(lambda found: f"{found[0]}{place}/{'raw' if found[1] else 'blob'}/main/", text)


def github() -> str:
    """The repository whose workflow is running; empty elsewhere."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else ""
