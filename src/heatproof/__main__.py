"""`python -m heatproof`"""

from heatproof.cli import command

command()
