"""A server of the Tinker protocol with a LoRA engine in torch: SDK and cookbook run on it unchanged, no account."""

from .serve.service import Engine, local_engine, run_seed

__all__ = ["Engine", "local_engine", "run_seed"]
