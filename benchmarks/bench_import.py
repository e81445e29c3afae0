"""What `import carriage_core` costs beside what it stands on, in fresh processes with compiled bytecode.

The measure is the import of tiktoken, rfc8785 and ruamel.yaml, which it uses, and pydantic, which it does not. The bar
is 1.5 times that.
"""

import compileall
import statistics
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

OURS = "import carriage_core"
THEIRS = "from pydantic import BaseModel; import tiktoken, rfc8785; from ruamel.yaml import YAML"
PACKAGES = ("carriage_core", "pydantic", "tiktoken", "rfc8785", "ruamel.yaml", "regex", "requests")
TIMES = 5
BAR = 1.5


def compiled() -> None:
    """Write the bytecode of everything that is measured."""
    for name in PACKAGES:
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            compileall.compile_dir(Path(spec.origin).parent, quiet=2)


def milliseconds(statement: str) -> float:
    """Time an import in a process of its own, without the start of the interpreter."""
    code = f"import time; start = time.perf_counter(); {statement}; print((time.perf_counter() - start) * 1000)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> int:
    """Print the table; 1 past the bar."""
    compiled()
    milliseconds(THEIRS)
    milliseconds(OURS)
    theirs: list[float] = []
    ours: list[float] = []
    for _ in range(TIMES):
        theirs.append(milliseconds(THEIRS))
        ours.append(milliseconds(OURS))
    ratio = statistics.median(ours) / statistics.median(theirs)
    print(f"import, median of {TIMES} fresh processes, in milliseconds")
    print(f"{'libraries':14} {statistics.median(theirs):8.1f}   {THEIRS}")
    print(f"{'carriage_core':14} {statistics.median(ours):8.1f}   {OURS}")
    print(f"{'ratio':14} {ratio:8.2f}   bar {BAR}")
    if ratio > BAR:
        print("over the bar")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
