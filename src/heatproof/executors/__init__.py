"""Ways to map tasks to results: in this process, in worker processes, on a Ray cluster."""

from heatproof.executors.base import CannotSendError, Executor, Failure, Usage, Work, cores

__all__ = ["CannotSendError", "Executor", "Failure", "Usage", "Work", "cores"]
