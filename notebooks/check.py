"""Fail when an executed notebook holds an error.

A Go cell that panics or a shell line that fails shows only as text on standard
error, and nbconvert calls the run a success. So this looks at every output.

usage: check.py EXECUTED.ipynb
"""
import json
import re
import sys

BAD = re.compile(r"exit status|panic:|signal:|fatal error:")


def faults(notebook):
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    if not code:
        yield "no code cells"
    images = 0
    for number, cell in enumerate(code, 1):
        if cell["execution_count"] is None:
            yield f"code cell {number} did not run"
        for out in cell["outputs"]:
            text = "".join(out.get("text", []))
            if out["output_type"] == "error":
                yield f"code cell {number}: {out['ename']}: {out['evalue']}"
            elif out.get("name") == "stderr" and BAD.search(text):
                yield f"code cell {number}: {text.strip()}"
            images += "image/png" in out.get("data", {})
    if images == 0:
        yield "no picture came out"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as f:
        found = list(faults(json.load(f)))
    for fault in found:
        print(f"{sys.argv[1]}: {fault}", file=sys.stderr)
    sys.exit(1 if found else 0)
