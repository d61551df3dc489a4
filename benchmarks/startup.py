"""How long importing the package and the first commands take, and what it adds to the imports of other packages.

    python benchmarks/startup.py [--rounds 5]

Each import runs in a process of its own, the cases in turn; medians. On a busy machine compare CPU seconds.
"""

import argparse
import statistics
import subprocess
import sys

CASES = {
    "import scisci_gym": "import scisci_gym",
    "scisci-gym --help": "import sys; sys.argv = ['scisci-gym', '--help']; from scisci_gym.cli import app; "
    "app(standalone_mode=False)",
    "import gymnasium": "import gymnasium",
    "import gymnasium, after scisci_gym": "import scisci_gym, gymnasium",
    "import the cookbook's benchmarks": "import tinker_cookbook.eval.benchmarks",
    "import the cookbook's benchmarks, after scisci_gym": "import scisci_gym, tinker_cookbook.eval.benchmarks",
    "scisci_gym.specs()": "import scisci_gym; scisci_gym.specs()",
}
TIMED = """
import sys, time
wall, cpu = time.perf_counter(), time.process_time()
{code}
print(time.perf_counter() - wall, time.process_time() - cpu, file=sys.stderr)
"""


def measure(code: str) -> tuple[float, float]:
    """Wall and CPU seconds of `code` in a new process, without the start of Python."""
    done = subprocess.run([sys.executable, "-c", TIMED.format(code=code)], capture_output=True, text=True, check=True)
    wall, cpu = done.stderr.split()[-2:]
    return float(wall), float(cpu)


def main() -> None:
    """Print the median of every case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    times = {case: [] for case in CASES}
    for _ in range(rounds):
        for case, code in CASES.items():
            times[case].append(measure(code))
    print("| what | wall s | CPU s |\n|---|---|---|")
    for case, pairs in times.items():
        wall, cpu = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(f"| {case} | {wall:.2f} | {cpu:.2f} |")


if __name__ == "__main__":
    main()
