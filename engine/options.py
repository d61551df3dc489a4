"""The options of an engine, checked."""

import importlib.util
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

AdapterKind = Literal["lora", "dora"]
Quantization = Literal["none", "4bit"]


@dataclass(frozen=True)
class EngineOptions:
    """Everything that can be set about an engine. ``scisci-gym engine serve --help`` says what the options mean.

    Raises
    ------
    ValueError
        If a value is not known, if a model's folder holds no model, or if other machines would be let in without an
        API key.
    """

    models: Mapping[str, str | Path] = field(default_factory=dict)  # Folders or hub repositories, by clients' names.
    checkpoints: Path = Path("checkpoints")
    host: str = "127.0.0.1"
    port: int = 0  # A free one.
    seed: int | None = 0  # None draws first weights and samples afresh.
    threads: int | None = None  # These three: chosen by what the machine has.
    device: str | None = None
    dtype: str | None = None
    download: bool = False
    adapter: AdapterKind = "lora"
    quantize: Quantization = "none"
    gather_seconds: float = 0.04  # How long sampling waits for requests to join a batch.
    sampling_bytes: int = 4_000_000_000  # Disk space for the weights of sampling clients.
    api_key: str | None = None  # Required of every client; None lets everybody in.

    def __post_init__(self) -> None:
        if not self.is_local and not self.api_key:
            raise ValueError(
                f"host {self.host!r} lets other machines in: set an API key (TINKER_API_KEY, starting with 'tml-')"
            )
        if self.api_key is not None and not self.api_key.startswith("tml-"):
            raise ValueError("the API key must start with 'tml-'; the SDK refuses others")
        for name, kinds in (("adapter", AdapterKind), ("quantize", Quantization)):
            if getattr(self, name) not in get_args(kinds):
                choices = ", ".join(get_args(kinds))
                raise ValueError(f"{name} {getattr(self, name)!r} is not known; choose one of {choices}")
        if self.quantize == "4bit" and importlib.util.find_spec("bitsandbytes") is None:
            raise ValueError(
                "quantize '4bit' needs bitsandbytes and, in practice, a CUDA GPU: pip install bitsandbytes; "
                "without it, quantize 'none' trains the same adapters on the full weights"
            )
        if self.threads is not None and self.threads < 1:
            raise ValueError(f"threads must be at least 1, got {self.threads}")
        if self.sampling_bytes < 0:
            raise ValueError(f"sampling_bytes must be at least 0, got {self.sampling_bytes}")
        for name, folder in self.models.items():
            if not Path(folder, "config.json").is_file() and not is_hub_name(str(folder)):
                raise ValueError(
                    f"base model {name!r}: {folder} is not a Hugging Face model folder (it has no config.json)"
                )

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the engine. Clients may then name base models by their path."""
        try:
            return self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def is_hub_name(text: str) -> bool:
    """Whether `text` reads OWNER/NAME, as repositories of the Hugging Face hub are named."""
    return text.count("/") == 1 and not text.startswith((".", "/", "~")) and not Path(text).exists()
