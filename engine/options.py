"""The options of an engine: one definition, from which the command line and the Python functions follow."""

import importlib.util
import ipaddress
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal, get_args

AdapterKind = Literal["lora", "dora"]
Quantization = Literal["none", "4bit"]
ADAPTER_KINDS: tuple[AdapterKind, ...] = get_args(AdapterKind)
QUANTIZATIONS: tuple[Quantization, ...] = get_args(Quantization)


@dataclass(frozen=True)
class EngineOptions:
    """Everything that can be set about an engine. The fields say what they mean in their ``help``, which
    ``scisci-gym engine serve --help`` prints.

    Raises
    ------
    ValueError
        If a value is not known, if a model's folder holds no model, or if other machines would be let in without an
        API key.
    """

    models: Mapping[str, str | Path] = field(
        default_factory=dict,
        metadata={"help": "NAME=FOLDER or NAME=OWNER/REPO of a base model; may be repeated.", "name": "model"},
    )
    checkpoints: Path = field(
        default=Path("checkpoints"), metadata={"help": "Folder of all checkpoints; it outlives the engine."}
    )
    host: str = field(default="127.0.0.1", metadata={"help": "Address; other than this machine needs TINKER_API_KEY."})
    port: int = field(default=0, metadata={"help": "Port; 0 takes a free one.", "command_line": 8765})
    seed: int | None = field(
        default=0, metadata={"help": "Seed of clients that name none, or 'random'.", "none": "random"}
    )
    threads: int | None = field(default=None, metadata={"help": "Torch threads; chosen by the number of cores."})
    device: str | None = field(default=None, metadata={"help": "cpu, cuda, cuda:1, ...; CUDA if there is a GPU."})
    dtype: str | None = field(default=None, metadata={"help": "float32, bfloat16 or float16, for the base model."})
    download: bool = field(default=False, metadata={"help": "Fetch models from the Hugging Face hub."})
    adapter: AdapterKind = field(default="lora", metadata={"help": "Adapters to train: lora or dora."})
    quantize: Quantization = field(
        default="none", metadata={"help": "Base model in memory: none, or 4bit (needs bitsandbytes)."}
    )
    gather_seconds: float = field(
        default=0.04,
        metadata={
            "help": "How long sampling waits for requests to join a batch, in ms.",
            "name": "gather_ms",
            "unit": 1e-3,
        },
    )
    sampling_bytes: int = field(
        default=4_000_000_000,
        metadata={
            "help": "Disk space for weights of sampling clients, in GB.",
            "name": "sampling_gb",
            "unit": 1e9,
        },
    )
    api_key: str | None = None
    """Required of every client; None lets everybody in. The command takes it from TINKER_API_KEY."""
    parent: int | None = None
    """Process id; the engine ends when that process does."""
    announce: str | None = None
    """File that receives the address once the engine answers."""

    def __post_init__(self) -> None:
        if not self.is_local and not self.api_key:
            raise ValueError(
                f"host {self.host!r} lets other machines in: set an API key (TINKER_API_KEY, starting with 'tml-')"
            )
        if self.api_key is not None and not self.api_key.startswith("tml-"):
            raise ValueError("the API key must start with 'tml-'; the SDK refuses others")
        if self.adapter not in ADAPTER_KINDS:
            raise ValueError(f"adapter {self.adapter!r} is not known; choose one of {', '.join(ADAPTER_KINDS)}")
        if self.quantize not in QUANTIZATIONS:
            raise ValueError(f"quantize {self.quantize!r} is not known; choose one of {', '.join(QUANTIZATIONS)}")
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

    def to_json(self) -> str:
        """All fields, for another process; `from_json` reads them."""
        return json.dumps(asdict(self), default=str)

    @classmethod
    def from_json(cls, text: str) -> "EngineOptions":
        """The inverse of `to_json`."""
        return cls(**json.loads(text))

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the engine. Clients may then name base models by their path."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def is_hub_name(text: str) -> bool:
    """Whether `text` reads OWNER/NAME, as repositories of the Hugging Face hub are named."""
    return text.count("/") == 1 and not text.startswith((".", "/", "~")) and not Path(text).exists()
