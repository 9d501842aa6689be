"""The project's addresses in the package's metadata: those of the place where it is built for release.

A build elsewhere names none, rather than a place that may be somebody else's.
"""

import os

from hatchling.metadata.plugin.interface import MetadataHookInterface


class Addresses(MetadataHookInterface):
    def update(self, metadata: dict) -> None:
        place = os.environ.get("HEATPROOF_REPOSITORY") or github()
        pages = {"Repository": "", "Issues": "/issues", "Changelog": "/blob/main/CHANGELOG.md"}
        metadata["urls"] = {name: place + page for name, page in pages.items()} if place else {}


def github() -> str:
    """The repository whose workflow is running; empty elsewhere."""
    server, name = os.environ.get("GITHUB_SERVER_URL"), os.environ.get("GITHUB_REPOSITORY")
    return f"{server}/{name}" if server and name else ""
