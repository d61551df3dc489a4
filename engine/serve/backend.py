"""The models, adapters and sampling sessions of a server.

Everything here runs on the worker thread, except what only looks: `Backend.model`, `Backend.resolved` and
`SamplingSessions.get` may be called on the event loop. The tables that they read are replaced whole, never changed in
place, so that a reader finds the table before a change or the one after it.
"""

import hashlib
import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from ..compute.adapters import AdapterWeights, LoraSpec, adapter_from_tensors, new_adapter
from ..compute.checkpoints import CheckpointInfo, CheckpointPath, CheckpointStore, check_name, now
from ..compute.loading import choose_device, choose_threads, dtype_named, find_model, load_model, suited_dtype
from ..compute.memory import return_freed_memory
from ..compute.model import BaseModel
from ..compute.optimizer import AdamSettings, new_optimizer, optim_step, optimizer_tensors, restore_optimizer
from ..compute.sampling import Sampler, SampleResult
from ..compute.token_choice import OccurrenceKeys
from ..compute.training import ForwardBackwardResult, TrainingDatum, forward_backward
from ..errors import RequestError
from ..options import EngineOptions, is_hub_name
from .sampling_sessions import SamplingSession, SamplingSessions
from .scheduler import SampleJob

logger = logging.getLogger(__name__)

BLOCK_ROWS, SMALLEST_BLOCK = 32, 8
"""Rows of a decoding block, and of one for a model that is not small and computes in float32."""


@dataclass
class TrainingModel:
    """An adapter in training, after `step` steps. `seed` is that of the client's run, None if it named none."""

    model_id: str
    base: BaseModel
    adapter: AdapterWeights
    optimizer: torch.optim.AdamW
    metadata: dict[str, Any]
    step: int = 0
    seed: int | None = None

    def forward_backward(
        self, data: Sequence[TrainingDatum], loss_fn: str, config: Mapping[str, float], *, backward: bool = True
    ) -> ForwardBackwardResult:
        """See `training.forward_backward`. The memory of a large model's passes goes back to the system."""
        result = forward_backward(self.base, self.adapter, data, loss_fn, config, backward=backward)
        if not self.base.is_small:
            return_freed_memory()
        return result

    def optim_step(self, settings: AdamSettings) -> dict[str, float]:
        metrics = optim_step(self.adapter, self.optimizer, settings)
        self.step += 1
        return metrics


class Backend:
    """State and operations of the engine; a `ValueError` if the options name a device or a format that is not there."""

    def __init__(self, options: EngineOptions) -> None:
        self.options = options
        self._device, self._dtype = choose_device(options.device), dtype_named(options.dtype)
        self.store = CheckpointStore(Path(options.checkpoints))
        self.sessions = SamplingSessions(self.store, options.sampling_bytes)
        self.models: dict[str, TrainingModel] = {}
        self._bases: dict[Path, BaseModel] = {}
        self._samplers: dict[int, Sampler] = {}

    def base(self, name: str) -> BaseModel:
        """The base model of that name, loaded at first use."""
        models = self.options.models
        folder = find_model(name, models, any_path=self.options.is_local, download=self.options.download)
        # A relative path means something else in another working directory: it is remembered as an absolute one.
        is_path = name not in models and Path(name).is_dir()
        return self._loaded(str(folder.resolve()) if is_path else name, folder)

    def _loaded(self, name: str, folder: Path) -> BaseModel:
        key = folder.resolve()
        if key not in self._bases:
            dtype = self._dtype or suited_dtype(folder, self._device)
            base = load_model(name, folder, self._device, dtype, self.options.quantize)
            if not base.is_small:
                base.threads = choose_threads(self.options.threads, small=False)
            self._bases[key] = base
            self._samplers[id(base)] = Sampler(base, *sampling_shape(base))
        return self._bases[key]

    def resolved_options(self) -> dict[str, Any]:
        """How the engine computes: device, kind of adapter and quantisation, and for every model that was loaded its
        number format and its threads, by its name and by its folder."""
        models = {}
        for folder, base in list(self._bases.items()):
            threads = base.threads or choose_threads(self.options.threads)
            about = {"dtype": str(base.dtype).removeprefix("torch."), "threads": threads}
            models |= {base.name: about, str(folder): about}
        options = {"adapter": self.options.adapter, "quantize": self.options.quantize}
        return {"device": str(self._device), **options, "models": models}

    def base_of(self, path: CheckpointPath) -> BaseModel:
        """The base model that a checkpoint was trained on.

        A model that the server was started with goes first, by its name. Otherwise it is the folder that the checkpoint
        remembers, and at last what its name means on the Hugging Face hub.
        """
        name = self.store.info(path).base_model
        if name in self.options.models or not self.options.is_local:
            return self.base(name)
        try:
            return self._loaded(name, self.store.base_folder(path))
        except RequestError as gone:
            if not is_hub_name(name):
                raise
            try:
                return self.base(name)
            except RequestError as error:
                raise RequestError(f"{gone}; {error}", status=404) from error

    def base_name(self, path: CheckpointPath) -> str:
        """What a client calls the base model of a checkpoint now: its folder may have been moved with the run."""
        name = self.store.info(path).base_model
        if name in self.options.models or is_hub_name(name) or not self.options.is_local:
            return name
        return str(self.store.base_folder(path))

    def model(self, model_id: str) -> TrainingModel:
        """The model in training with this id; a `RequestError` (404) if there is none."""
        if model_id not in self.models:
            raise RequestError(
                f"model_id {model_id!r} is not in training here (sessions end with the server); "
                "load one of its checkpoints with create_training_client_from_state",
                status=404,
            )
        return self.models[model_id]

    def resolved(self, spec: LoraSpec, number: int, run_seed: int | None = None) -> LoraSpec:
        """`spec` completed with the engine's kind of adapter, and with a seed if the client gave none.

        It follows from the model's `number` in its session (two models of one session start from different weights) and
        the seed that the session names, or the engine's own. If that is None too, the weights are drawn afresh.
        """
        spec = replace(spec, kind=self.options.adapter)
        seed = self.options.seed if run_seed is None else run_seed
        if spec.seed is not None or seed is None:
            return spec
        digest = hashlib.blake2b(f"adapter:{seed}:{number}".encode(), digest_size=4).digest()
        return replace(spec, seed=int.from_bytes(digest, "little"))

    def create_model(
        self, model_id: str, base_model: str, spec: LoraSpec, metadata: dict[str, Any], *, seed: int | None = None
    ) -> TrainingModel:
        """Start training a new adapter of `base_model`."""
        if model_id in self.models:
            raise RequestError(f"model_id {model_id!r} exists already")
        base = self.base(base_model)
        adapter = new_adapter(base.layers, spec, base.device)
        model = TrainingModel(model_id, base, adapter, new_optimizer(adapter), metadata, seed=seed)
        self.models = {**self.models, model_id: model}
        return model

    def save(
        self,
        model_id: str,
        kind: str,
        name: str | None,
        *,
        overwrite: bool = False,
        user_metadata: dict[str, str] | None = None,
        expires_at: str | None = None,
        finish: Callable[[Path], None] = lambda _: None,
    ) -> str:
        """Write a checkpoint and return its path; `finish` as in `CheckpointStore.save`."""
        model = self.model(model_id)
        name = check_name(name or f"step-{model.step:06d}-{uuid.uuid4().hex[:6]}", "the name of a checkpoint")
        path = str(CheckpointPath(model_id, kind, name))
        state = optimizer_tensors(model.adapter, model.optimizer) if kind == "weights" else None
        info = CheckpointInfo(
            path=path,
            base_model=model.base.name,
            lora=model.adapter.spec,
            step=model.step,
            time=now(),
            has_optimizer=state is not None,
            run_metadata=model.metadata,
            user_metadata=user_metadata or {},
            expires_at=expires_at,
            quantize=self.options.quantize,
        )
        self.store.save(info, model.adapter, state, model.base.folder.resolve(), overwrite=overwrite, finish=finish)
        return path

    def load(
        self,
        model_id: str,
        path: str,
        *,
        with_optimizer: bool,
        base_model: str | None = None,
        metadata: dict[str, Any] | None = None,
        seed: int | None = None,
    ) -> TrainingModel:
        """Put a checkpoint into `model_id`, which is made if there is no such model yet.

        One that was trained with another kind of adapter or another quantisation than this server trains with is
        refused: going on would be another experiment than either name says. Sampling from it works on any server.
        """
        source = CheckpointPath.parse(path)
        checkpoint = self.store.load(source)
        info, mine = checkpoint.info, self.options
        if (info.lora.kind, info.quantize) != (mine.adapter, mine.quantize):
            raise RequestError(
                f"{info.path} was trained with adapter {info.lora.kind!r} and quantize {info.quantize!r}, this engine "
                f"trains with {mine.adapter!r} and {mine.quantize!r}; to go on with it start the engine with --adapter "
                f"{info.lora.kind} --quantize {info.quantize} (sampling from it works as it is)"
            )
        if with_optimizer and checkpoint.optimizer is None:
            raise RequestError(
                f"{path} holds no optimizer state (it is a sampler checkpoint); load it without optimizer"
            )
        name = base_model or info.base_model
        base = self.base_of(source) if name == info.base_model else self.base(name)
        adapter = adapter_from_tensors(base.layers, info.lora, checkpoint.tensors, base.device)
        state = new_optimizer(adapter)
        if with_optimizer and checkpoint.optimizer is not None:
            restore_optimizer(adapter, state, checkpoint.optimizer)
        before = self.models.get(model_id)
        metadata = metadata or (before.metadata if before else info.run_metadata)
        step = info.step if with_optimizer else 0
        model = TrainingModel(model_id, base, adapter, state, metadata, step, seed)
        self.models = {**self.models, model_id: model}
        return model

    def sampler_from_model(self, model_id: str) -> str:
        """Open a sampling session on the present weights of a model, which later steps do not change."""
        model = self.model(model_id)
        keys = self._keys(model.adapter.spec, model.step, model.seed)
        return self.sessions.open(model.base, keys, session_of(model_id), model.adapter.snapshot())

    def sampler_from_path(self, path: str, owner: str = "", seed: int | None = None) -> str:
        """Open a sampling session of the client session `owner`, whose run has this seed, on a checkpoint."""
        source = CheckpointPath.parse(path)
        checkpoint = self.store.load(source)
        info, base = checkpoint.info, self.base_of(source)
        if info.quantize != self.options.quantize:
            logger.warning(
                f"{path} was trained on a base model with quantize {info.quantize!r} and is sampled from with "
                f"{self.options.quantize!r}: its log-probabilities are not those of training"
            )
        keys = self._keys(info.lora, info.step, seed)
        adapter = adapter_from_tensors(base.layers, info.lora, checkpoint.tensors, base.device).frozen()
        return self.sessions.open(base, keys, owner, adapter, source, info.time)

    def sampler_from_base(self, base_model: str, owner: str = "", seed: int | None = None) -> str:
        """Open a sampling session of the client session `owner`, whose run has this seed, on a base model."""
        return self.sessions.open(self.base(base_model), self._keys(None, 0, seed), owner)

    def _keys(self, spec: LoraSpec | None, step: int, run_seed: int | None) -> OccurrenceKeys:
        """Random keys for weights of a version, which is made of the adapter's seed and the number of steps.

        It is not a hash of the weights: one differing bit, and a resumed run would draw entirely other samples. This
        way it draws the same ones but for the rare draw that falls between the two.
        """
        version = "base" if spec is None else f"{spec.seed}:{step}"
        return OccurrenceKeys(self.options.seed if run_seed is None else run_seed, version)

    def prepare_samples(self, jobs: Sequence[SampleJob]) -> None:
        """Read the prompts of requests whose batch is not complete yet."""
        for session_id, members in _by_session(jobs).items():
            session = self.sessions.get(session_id)
            prompts = [job.payload.prompt for job in members]
            self._samplers[id(session.base)].read_ahead(self.sessions.adapter(session), prompts)

    def serve_samples(self, jobs: Sequence[SampleJob]) -> list[SampleResult | Exception]:
        """Serve sampling requests, each session's in one batch; what fails in one session leaves the others alone."""
        results: dict[int, SampleResult | Exception] = {}
        for session_id, members in _by_session(jobs).items():
            try:
                served = self._sample(self.sessions.get(session_id), members)
                results |= {id(job): result for job, result in zip(members, served, strict=True)}
            except Exception as error:
                results |= {id(job): error for job in members}
        for sampler in self._samplers.values():
            sampler.forget()
            if not sampler.base.is_small:
                return_freed_memory()
        return [results[id(job)] for job in jobs]

    def _sample(self, session: SamplingSession, jobs: list[SampleJob]) -> list[SampleResult]:
        # Requests without a seed get their keys from the session, in the client's order.
        requests = [
            replace(request, keys=tuple(key or session.keys.next(request.prompt) for key in request.keys))
            for request in (job.payload for job in jobs)
        ]
        return self._samplers[id(session.base)].sample(self.sessions.adapter(session), requests)

    def end_session(self, session_id: str) -> None:
        """Free the models and sampling sessions of a client session."""
        self.models = {name: model for name, model in self.models.items() if session_of(name) != session_id}
        self.sessions.end(session_id)


def sampling_shape(base: BaseModel) -> tuple[int, int]:
    """(rows of a decoding block, prompt tokens per call).

    Small models are dominated by the cost of a call. A decoding step of a larger one reads all weights, whatever the
    number of rows; only in float32 on a CPU the arithmetic of rows that are not needed would cost more than that.
    """
    on_gpu = base.device.type == "cuda"
    rows = BLOCK_ROWS if base.is_small or on_gpu or base.dtype != torch.float32 else SMALLEST_BLOCK
    # With several CPU threads the fused attention splits prompts that are read together by what else is there
    # (measured: last bits differ), so they are read one by one.
    return rows, 256 if base.is_small and not on_gpu and torch.get_num_threads() == 1 else 1


def session_of(model_id: str) -> str:
    """The client session of a model in training."""
    return model_id.partition(":train:")[0]


def _by_session(jobs: Sequence[SampleJob]) -> dict[str, list[SampleJob]]:
    out: dict[str, list[SampleJob]] = {}
    for job in jobs:
        out.setdefault(job.session_id, []).append(job)
    return out
