"""What the SDK and the cookbook ask for beside training and sampling: identities, sessions, copies, exports."""

from pathlib import Path

import pyrage
import pytest
import tinker
from safetensors.torch import load_file
from tinker import types
from tinker_cookbook import weights
from toy_data import random_tokens

from scisci_gym.engine import Engine
from scisci_gym.engine.serve.identity import is_token, new_token
from scisci_gym.engine.serve.server import CLIENT_CONFIG
from scisci_gym.engine.serve.service import local_engine

PROMPT = types.ModelInput.from_ints(random_tokens(12, 0))


@pytest.fixture
def rest(engine: Engine) -> tinker.RestClient:
    return tinker.RestClient(base_url=engine.url, api_key=engine.api_key)


def logprobs(service: tinker.ServiceClient, path: str) -> list[float | None]:
    return service.create_sampling_client(model_path=path).result().compute_logprobs(PROMPT).result()


def test_whoami_names_the_one_user(rest: tinker.RestClient) -> None:
    assert rest.whoami().result().org_urn == "tml:organization:local"


def test_a_token_is_taken_until_it_expires_and_by_engines_with_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    token = new_token("tml-a")
    assert is_token("tml-a", token)
    assert not is_token("tml-b", token)
    header, payload, signature = token.split(".")
    assert not is_token("tml-a", f"{header}.{payload}x.{signature}")
    assert not is_token("tml-a", "tml-a")
    monkeypatch.setattr("scisci_gym.engine.serve.identity.TOKEN_SECONDS", -1.0)
    assert not is_token("tml-a", new_token("tml-a"))


def test_sessions_with_their_runs_and_samplers(
    trainer: tinker.TrainingClient, service: tinker.ServiceClient, rest: tinker.RestClient
) -> None:
    run = trainer.get_info().model_id
    session = run.partition(":")[0]
    trainer.save_weights_and_get_sampling_client().result()
    assert rest.list_sessions().result().sessions[0] == session
    assert rest.list_sessions(offset=1, limit=1).result().sessions != [session]
    answer = rest.get_session(session).result()
    assert answer.training_run_ids == [run]
    assert len(answer.sampler_ids) == 1
    with pytest.raises(tinker.NotFoundError, match="no session 'session-x'"):
        rest.get_session("session-x").result()


def test_a_copy_outlives_the_checkpoint_that_it_was_made_of(
    trainer: tinker.TrainingClient, service: tinker.ServiceClient, rest: tinker.RestClient
) -> None:
    source = trainer.save_state("one").result().path
    sampled = trainer.save_weights_for_sampler("two").result().path
    copies = [rest.copy_weights(path, "project").result() for path in (source, sampled)]
    assert len({source, sampled, *copies}) == 4
    before = logprobs(service, sampled)
    for path in (source, sampled):
        rest.delete_checkpoint_from_tinker_path(path).result()
    assert logprobs(service, copies[1]) == before
    assert service.create_training_client_from_state_with_optimizer(copies[0]).result().get_info().model_id != copies[0]
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        rest.copy_weights(source, "project").result()


def test_an_export_is_a_peft_adapter_behind_signed_urls(
    trainer: tinker.TrainingClient, service: tinker.ServiceClient, rest: tinker.RestClient, tmp_path: Path
) -> None:
    path = trainer.save_weights_external("out").result().path
    assert path.endswith("/external_weights/out")
    weights.download(tinker_path=path, output_dir=str(tmp_path / "adapter"))
    assert {file.name for file in (tmp_path / "adapter").iterdir()} == {
        "adapter_model.safetensors",
        "adapter_config.json",
    }
    listed = rest.list_checkpoints(trainer.get_info().model_id).result().checkpoints
    assert [checkpoint.checkpoint_type for checkpoint in listed] == ["external"]
    with pytest.raises(tinker.NotFoundError, match="no checkpoint"):
        rest.get_external_weights_urls(path + "x").result()
    with pytest.raises(tinker.BadRequestError, match="for download"):
        service.create_sampling_client(model_path=path).result()


def test_the_cookbook_downloads_a_training_checkpoint(
    trainer: tinker.TrainingClient, rest: tinker.RestClient, tmp_path: Path
) -> None:
    """It copies it into a new run, exports it encrypted to a key of its own, and deletes the export."""
    path = trainer.save_state("state").result().path
    plain = trainer.save_weights_external("plain").result().path
    for name, source in (("state", path), ("plain", plain)):
        weights.download(tinker_path=source, output_dir=str(tmp_path / name))
    tensors = [load_file(tmp_path / name / "adapter_model.safetensors") for name in ("state", "plain")]
    assert tensors[0].keys() == tensors[1].keys()
    assert all(bool((tensors[0][key] == tensors[1][key]).all()) for key in tensors[0])


def test_an_encrypted_export_can_be_read_with_the_key_only(
    trainer: tinker.TrainingClient, rest: tinker.RestClient, tmp_path: Path
) -> None:
    identity = pyrage.x25519.Identity.generate()  # pyright: ignore[reportAttributeAccessIssue]
    recipients = [str(identity.to_public())]
    path = trainer.save_weights_external("secret", age_encryption_recipients=recipients).result().path
    weights.download(tinker_path=path, output_dir=str(tmp_path))
    secret = (tmp_path / "adapter_config.json.age").read_bytes()
    assert b"LORA" not in secret
    assert b"LORA" in pyrage.decrypt(secret, [identity])  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(tinker.BadRequestError, match="'age1nonsense'"):
        trainer.save_weights_external("other", age_encryption_recipients=["age1nonsense"]).result()


def test_samples_by_polls_of_the_whole_session(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An SDK that is told to use `retrieve_futures` gets the samples that others get."""
    answers = []
    for together in (False, True):
        monkeypatch.setitem(CLIENT_CONFIG, "sample_use_retrieve_futures", together)
        with local_engine({"tiny": tiny_model}, checkpoints=tmp_path / str(together), process=False):
            service = tinker.ServiceClient()
            sampler = service.create_sampling_client(base_model="tiny").result()
            params = types.SamplingParams(max_tokens=4, seed=1)
            futures = [sampler.sample(PROMPT, 2, params) for _ in range(5)]
            answers.append([[s.tokens for s in future.result().sequences] for future in futures])
            service.close("success").result()
    assert answers[0] == answers[1]
