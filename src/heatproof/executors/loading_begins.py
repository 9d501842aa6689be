"""What the process loads first that workers are forked from: until it has loaded all else, it ends with its parent.

Later it notices by itself, but loading takes seconds in which it would not. What is loaded is no garbage.
"""

from __future__ import annotations

import gc
import os

from heatproof.executors.set_up import MAKER, end_with_maker

gc.disable()
end_with_maker()
if os.environ.get(MAKER) != str(os.getppid()):
    raise SystemExit  # which was gone by then
