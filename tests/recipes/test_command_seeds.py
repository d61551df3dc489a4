"""`--seeds` of study and check: what is no list of different seeds is answered in one line, before anything runs."""

import pytest
from typer.testing import CliRunner

from scisci_gym.cli import app


@pytest.mark.parametrize("seeds", ["1,a", "1,1", "1,,2", "-1", "1.5", "²", ""])
def test_a_list_of_seeds_that_is_none(seeds, tmp_path):
    result = CliRunner().invoke(
        app, ["check", "disruption-v0", "--learnable", "--seeds", seeds, "--out", str(tmp_path / "out")]
    )
    assert result.exit_code == 2
    assert f"--seeds wants different whole numbers with commas between, such as 301,302; got '{seeds}'" in " ".join(
        result.output.split()
    )
    assert not (tmp_path / "out").exists()
