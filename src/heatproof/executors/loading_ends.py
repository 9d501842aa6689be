"""What the process loads last that workers are forked from: the thread that made it may end before its process."""

from __future__ import annotations

from heatproof.executors.set_up import end_with_maker

end_with_maker(False)
