"""Uploading a built dataset to the Hugging Face hub."""

from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError

from .store import load_card

# The graph and the works behind a dataset are not uploaded: they are large, and the card says how to make them.
UPLOADED = ("README.md", "card.json", "data/*.parquet")


def push(folder: Path, repo: str, *, private: bool = True) -> str:
    """Upload a built dataset with its card to the repository ``OWNER/NAME``; the hub's address of the commit.

    The repository is created where it does not exist. The token is the one that Hugging Face keeps (``HF_TOKEN``).
    Raises `ValueError` where the hub refuses.
    """
    load_card(folder)
    api = HfApi()
    try:
        api.create_repo(repo, repo_type="dataset", private=private, exist_ok=True)
        commit = api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            repo_type="dataset",
            allow_patterns=list(UPLOADED),
            delete_patterns=["data/*.parquet"],
            commit_message="scisci-gym dataset",
        )
    except HfHubHTTPError as error:
        raise ValueError(f"the hub refused {repo}: {error}; is HF_TOKEN set, and may it write there?") from error
    return str(commit)
