"""Tests of check.py: python3 -m unittest notebooks/check_test.py"""
import base64
import copy
import os
import struct
import sys
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import check


def png(rows, how=0):
    """A grey picture; how is the filter of its rows, 0 none or 1 the difference to the left."""
    def chunk(kind, body):
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    raw = b""
    for row in rows:
        if how == 1:
            row = [(v - w) & 255 for v, w in zip(row, [0] + row[:-1])]
        raw += bytes([how]) + bytes(row)
    head = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 0, 0, 0, 0)
    body = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + body).decode()


GREY = [[(7 * x + y) % 256 for x in range(30)] for y in range(20)]


def notebook(html="<td>0.123</td>", picture=None, stderr="", count=1, tags=()):
    outputs = [
        {"output_type": "display_data", "data": {"text/html": [html]}},
        {"output_type": "display_data", "data": {"image/png": picture or png(GREY)}},
        {"output_type": "stream", "name": "stdout", "text": ["holds: so it is\n"]},
    ]
    if stderr:
        outputs.append({"output_type": "stream", "name": "stderr", "text": [stderr]})
    cell = {"cell_type": "code", "execution_count": count, "metadata": {"tags": list(tags)}, "outputs": outputs}
    return {"cells": [{"cell_type": "markdown", "source": ["# title"]}, cell]}


class Faults(unittest.TestCase):
    def test_good(self):
        self.assertEqual(list(check.faults(notebook())), [])

    def test_bad(self):
        raised = notebook()
        raised["cells"][1]["outputs"].append({"output_type": "error", "ename": "E", "evalue": "v"})
        blind = notebook()
        del blind["cells"][1]["outputs"][1]
        bad = [raised, blind, {"cells": []}, notebook(count=None)]
        bad += [notebook(stderr=s) for s in ("panic: does not hold", "exit status 2", "signal: killed", "fatal error: out of memory")]
        for n in bad:
            self.assertTrue(list(check.faults(n)), n)


class Changes(unittest.TestCase):
    def same(self, executed, stored=None):
        return not list(check.changes(executed, stored or notebook()))

    def test_same(self):
        self.assertTrue(self.same(notebook()))
        self.assertTrue(self.same(notebook(html="<td>0.124</td>")))  # one in the last digit
        self.assertTrue(self.same(notebook(picture=png(GREY, 1))))  # other bytes, the same picture
        speck = copy.deepcopy(GREY)
        speck[3][4] ^= 1
        self.assertTrue(self.same(notebook(picture=png(speck))))
        self.assertTrue(self.same(notebook(html="<td>9.9</td>", tags=["varies"])))

    def test_changed(self):
        lost = notebook()
        del lost["cells"][1]["outputs"][0]
        more = notebook()
        more["cells"].append(more["cells"][1])
        dark = [[255 - v for v in row] for row in GREY]
        counts = notebook(html="<td>1,234</td>"), notebook(html="<td>1,235</td>")
        self.assertFalse(self.same(*counts))  # a count is exact
        for n in (lost, more, notebook(html="<td>0.126</td>"), notebook(html="<td>-0.123</td>"), notebook(html="<td>0.123</td><td>1</td>"), notebook(picture=png(dark)), notebook(picture=png(GREY[1:]))):
            self.assertFalse(self.same(n))
        vanished = notebook(tags=["varies"])
        del vanished["cells"][1]["outputs"][1]
        self.assertFalse(self.same(vanished))


if __name__ == "__main__":
    unittest.main()
