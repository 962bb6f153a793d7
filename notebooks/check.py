"""Fail when an executed notebook holds an error, or other outputs than those stored.

A Go cell that panics or a shell line that fails shows only as text on standard error,
and nbconvert calls the run a success. So this looks at every output, and then compares
it with the stored one: texts must be equal but for numbers, which may differ by one in
the last digit, and pictures but for a hundredth of their pixels, since processors round
differently. The outputs of cells with the tag "varies" (times, draws whose chains part
at the first rounding) need only be of the same kinds.

usage: check.py [-w] EXECUTED.ipynb STORED.ipynb    -w stores the outputs
"""
import base64
import json
import re
import struct
import sys
import zlib

BAD = re.compile(r"exit status|panic:|signal:|fatal error:")
NUMBER = re.compile(r"[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def code_cells(notebook):
    return [c for c in notebook["cells"] if c["cell_type"] == "code"]


def faults(notebook):
    code = code_cells(notebook)
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


def parts(cell):
    """The outputs of a cell as pairs of a kind and its content."""
    for out in cell["outputs"]:
        if out["output_type"] == "stream":
            yield out["name"], "".join(out["text"])
        for kind, content in sorted(out.get("data", {}).items()):
            yield kind, content if isinstance(content, str) else "".join(content)


def near(a, b):
    """Whether two printed numbers differ by one in the last digit at most."""
    fine = 0.0
    for s in (a, b):
        mantissa, _, exponent = s.replace(",", "").partition("e")
        _, _, decimals = mantissa.partition(".")
        fine = max(fine, 10.0 ** (int(exponent or 0) - len(decimals)))
    a, b = (float(s.replace(",", "")) for s in (a, b))
    whole = fine == 1 and abs(a) < 1e15 and a == int(a)
    return a == b if whole else abs(a - b) < 1.5 * fine


def same_text(a, b):
    if NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return False
    return all(near(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def pixels(png):
    """Width and the bytes of a picture of 8 bits a channel, not interlaced."""
    at, packed = 8, b""
    while at < len(png):
        size, kind = struct.unpack(">I4s", png[at : at + 8])
        body = png[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        elif kind == b"IDAT":
            packed += body
        at += 12 + size
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[colour]
    stride, raw, out = width * channels, zlib.decompress(packed), bytearray()
    above = bytearray(stride)
    for y in range(height):
        how = raw[y * (stride + 1)]
        row = bytearray(raw[y * (stride + 1) + 1 : (y + 1) * (stride + 1)])
        for x in range(stride if how else 0):
            left = row[x - channels] if x >= channels else 0
            corner = above[x - channels] if x >= channels else 0
            if how == 1:
                guess = left
            elif how == 2:
                guess = above[x]
            elif how == 3:
                guess = (left + above[x]) // 2
            else:
                p = left + above[x] - corner
                guess = min((left, above[x], corner), key=lambda v: abs(p - v))
            row[x] = (row[x] + guess) & 255
        out += row
        above = row
    return (width, height, channels), bytes(out)


def same_picture(a, b):
    if a == b:
        return True
    (size_a, a), (size_b, b) = (pixels(base64.b64decode(s)) for s in (a, b))
    return size_a == size_b and sum(x != y for x, y in zip(a, b)) <= 0.01 * len(a)


def changes(executed, stored):
    old, new = code_cells(stored), code_cells(executed)
    if len(old) != len(new):
        yield f"{len(new)} code cells, stored {len(old)}"
    for number, (a, b) in enumerate(zip(old, new), 1):
        a_parts, b_parts = list(parts(a)), list(parts(b))
        if [k for k, _ in a_parts] != [k for k, _ in b_parts]:
            yield f"code cell {number}: outputs {[k for k, _ in b_parts]}, stored {[k for k, _ in a_parts]}"
        elif "varies" not in b["metadata"].get("tags", []):
            for (kind, x), (_, y) in zip(a_parts, b_parts):
                if kind == "image/png":
                    if not same_picture(x.strip(), y.strip()):
                        yield f"code cell {number}: the picture is not the stored one"
                elif not same_text(x, y):
                    yield f"code cell {number}: came out as\n{y}\nand is stored as\n{x}"


def main(args):
    write = args[:1] == ["-w"]
    executed_name, stored_name = args[write:]
    with open(executed_name, encoding="utf-8") as f:
        executed = json.load(f)
    with open(stored_name, encoding="utf-8") as f:
        stored = json.load(f)
    found = list(faults(executed))
    if not found and write:
        for a, b in zip(stored["cells"], executed["cells"]):
            if a["cell_type"] == "code":
                a["outputs"], a["execution_count"] = b["outputs"], b["execution_count"]
        with open(stored_name, "w", encoding="utf-8") as f:
            json.dump(stored, f, ensure_ascii=False, indent=1)
            f.write("\n")
    elif not found:
        found = list(changes(executed, stored))
        if found:
            found.append("look at what changed, and store it with notebooks/run.sh -w")
    for fault in found:
        print(f"{stored_name}: {fault}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
