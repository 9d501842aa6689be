"""What the process loads last that workers are forked from: the thread that made it may end before its process.

What is loaded is never looked through for garbage: a worker that did would make the memory its own that it shares.
"""

from __future__ import annotations

import gc

from heatproof.executors.set_up import end_with_maker

end_with_maker(False)
gc.freeze()
gc.enable()
