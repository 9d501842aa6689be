"""What the process loads first that workers are forked from: until it has loaded all else, it ends with its parent.

Later it notices by itself, but loading takes seconds in which it would not.
"""

from __future__ import annotations

import os

from heatproof.executors.set_up import MAKER, end_with_maker

end_with_maker()
if os.environ.get(MAKER) != str(os.getppid()):
    raise SystemExit  # which was gone by then
