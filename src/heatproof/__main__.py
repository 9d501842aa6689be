"""`python -m heatproof`"""

from heatproof.cli import main

main()
