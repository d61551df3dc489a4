"""A Tinker-protocol server with a torch LoRA engine: the tinker SDK and cookbook run on it unchanged, with no
account.
"""

from .service import Engine, local_engine, run_seed

__all__ = ["Engine", "local_engine", "run_seed"]
