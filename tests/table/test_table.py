"""bench/table: its rows, what it asks of its sides, and the page that is made of its figures.

usage: test_table.py SOURCE_ROOT SERVE
"""
import argparse
import collections
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock
import xml.etree.ElementTree as tree

ROOT, SERVE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
sys.path.insert(0, os.path.join(ROOT, "bench/table"))
import bounds  # noqa: E402
import cases  # noqa: E402
import pages  # noqa: E402
import table  # noqa: E402

SMALL = {  # one call of each kind that cases.py can say
    "product": cases.product("s", "f32", 5, 7, 3), "batched": cases.product("s", "bf16", 5, 7, 3, 2, 1, 1),
    "tf32": cases.product("s", "tf32", 4, 4, 4, trans_b=1), "i8": cases.product("s", "i8", 4, 8, 4),
    "attention": cases.attention("s", 1, 4, 2, 8, 8, 16, "f32", True),
    "attention grad": cases.attention("s", 1, 4, 2, 8, 8, 16, "f32", True, True),
    "transpose": cases.moves("s", "copy", "f32", [6, 4], layout="swapped", out="f32:6x4"),
    "norm": cases.moves("s", "layer_norm", "f32", [6, 4], "axis=1", ["f32:4"] * 2),
    "sum": cases.moves("s", "sum", "f16", [6, 4], "axes=1", parts=1),
    **{way: cases.conv("s", "f32", 2, 4, 9, 8, 6, 3, 2, 1, groups=2, way=way)
       for way in ("forward", "by input", "by weight")},
}


class Bounds(unittest.TestCase):
    UNITS = {bounds.DURATION: "ns", bounds.MOVED: "Mbyte"}

    def profiled(self, kernels):
        """What ncu prints of kernels, {"kernel": name, metric: value}."""
        names = ["ID", "Kernel Name", *[name for name in kernels[0] if name != "kernel"]]
        rows = [names, [self.UNITS.get(name, "%" if "pct" in name else "") for name in names],
                *[[str(i), k["kernel"], *[str(k[name]) for name in names[2:]]] for i, k in enumerate(kernels)]]
        return "==PROF== Connected\nbegin x\n" + "\n".join(",".join(f'"{v}"' for v in row) for row in rows)

    def test_the_slowest_calls(self):
        rows = [("add", "a", 100, 0.9), ("add", "b", 100, 0.5), ("add", "tiny", 5, 0.1), ("matmul", "c", 100, 0.1),
                ("neg", "d", 100, 0.99), ("cached", "e", 100, None)]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as lines:
            for op, case, us, part in rows:
                row = dict(bench="ops", op=op, dtype="f32", case=case, time_us=us, of_copy=part)
                lines.write(json.dumps(row) + "\n\n")
            lines.flush()
            found = bounds.slowest(lines.name, 30, bounds.COMPUTING.split(","))
        self.assertEqual(["b", "d"], [r["case"] for r in found])

    def test_the_last_call_is_told_from_the_one_before(self):
        for call in (["k"], ["k", "k"], ["a", "b", "a"]):
            kernels = [{"kernel": name} for name in ["copy", *call, *call]]
            self.assertEqual(kernels[-len(call):], bounds.last_call(kernels), call)
        self.assertEqual([], bounds.last_call([{"kernel": "a"}, {"kernel": "b"}]))

    def test_what_bounds_a_call(self):
        peaks = {metric: 10.0 for metric in bounds.PARTS.values()}
        one = {"kernel": "one", bounds.DURATION: 30000, bounds.MOVED: 60, **peaks, bounds.PARTS["alu"]: 96.0}
        two = {"kernel": "two", bounds.DURATION: 10000, bounds.MOVED: 20, **peaks, bounds.PARTS["alu"]: 16.0}
        kernels = bounds.figures_of(self.profiled([one, two]))
        row = dict(op="x", dtype="f32", case="x f32 9", of_copy=0.5, time_us=42.0, gbytes_s=40e6 / 42e3)
        got = bounds.summary(row, kernels)
        self.assertEqual((2, 40.0, 76.0, "alu"), (got["kernels"], got["kernels_us"], got["alu"], got["bound"]))
        self.assertAlmostEqual(2, got["moved"], places=3)
        self.assertEqual("launches", bounds.summary(dict(row, time_us=90), [two, two])["bound"])
        self.assertEqual("latency (alu 16 %)", bounds.summary(dict(row, time_us=11), [two])["bound"])
        text = bounds.page([got], 7, 0.95, "Example <GPU>")
        self.assertIn("Of 7 operators", text)
        self.assertIn("| x f32 9 | 0.50 | 42 | 2 | 2.00 | 10 % | 10 % | 10 % | 10 % | alu 76 % | alu |", text)
        for text in ("==ERROR== no permission", '"ID","Kernel Name"', ""):
            self.assertEqual([], bounds.figures_of(text), text)

    def test_a_page_of_counters_of_before(self):
        timed = [dict(bench="ops", op=op, dtype="f32", case=op, time_us=42.0, of_copy=0.5) for op in ("x", "y")]
        counted = {**timed[0], "device": "Example", "kernels_us": 40.0, "kernels": 1, "moved": 1.0, "bound": "?",
                   **{name: 96.0 if name == "alu" else 10.0 for name in bounds.PARTS}}
        with tempfile.TemporaryDirectory() as folder:
            at = {name: os.path.join(folder, name) for name in ("ops", "counted", "page")}
            for name, rows in (("ops", timed), ("counted", [counted])):
                with open(at[name], "w", encoding="utf-8") as lines:
                    lines.writelines(json.dumps(row) + "\n" for row in rows)
            with unittest.mock.patch.object(sys, "argv", ["bounds.py", at["ops"], "--again", at["counted"],
                                                         "--page", at["page"]]):
                self.assertEqual(0, bounds.main())
            with open(at["page"], encoding="utf-8") as page:
                text = page.read()
        self.assertIn("on one Example", text)
        self.assertIn("| alu 96 % | alu |", text)
        self.assertIn("| y | 0.50 | 42 | – | – | – | – | – | – | – | not counted |", text)

    def test_what_is_not_profiled(self):
        row = dict(op="x", dtype="f32", case="x f32 9", of_copy=0.5, time_us=42.0, gbytes_s=1.0)
        options = argparse.Namespace(tenon="tenon", device="cuda")
        one = {"kernel": "k", bounds.DURATION: 30000, bounds.MOVED: 60}
        calls = self.profiled([one, one]).replace("begin x", "begin x\nbegin x")
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, PATH=folder):
            with self.assertRaises(SystemExit):
                bounds.known_metrics()
            ncu = os.path.join(folder, "ncu")
            for said, kernels in ((self.profiled([one, one]), 1), (calls, 0), ("==ERROR== no permission", 0)):
                with open(ncu, "w", encoding="utf-8") as program:
                    program.write(f"#!/bin/sh\nwhile read -r line; do echo \"$line\"; done <<'TEXT'\n{said}\nTEXT\n")
                os.chmod(ncu, 0o755)
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    self.assertEqual(kernels, len(bounds.profile(options, row, []) or []))
                self.assertEqual(not kernels, "nothing profiled" in told.getvalue())


class Rows(unittest.TestCase):
    def test_sections_have_what_they_promise(self):
        rows = {name: list(section()) for name, section in cases.SECTIONS.items()}
        keys = collections.Counter((c["section"], c["row"]) for section in rows.values() for c in section)
        self.assertEqual([], [key for key, count in keys.items() if count > 1])
        for name, section in rows.items():
            self.assertEqual({name}, {c["section"] for c in section})
        self.assertGreaterEqual(len(rows["products"]), 40)
        self.assertEqual({"f32", "tf32", "f16", "bf16", "i8"}, {c["limit"] for c in rows["products"]})
        self.assertGreaterEqual(len(rows["convolutions"]), 30)
        self.assertGreaterEqual(sum("forward" in c["row"] for c in rows["attention"]), 12)
        self.assertEqual(20, len(rows["host"]))
        self.assertEqual(10, len({c["row"].split()[0] for c in rows["bandwidth"]}))
        self.assertTrue({"add 2^0", "add 2^30"} <= {c["row"] for c in rows["bandwidth"]})

    def test_the_processors_rows(self):
        for most in (1, 2, 16):
            rows = [c for name in cases.CPU_SECTIONS for n in (1, most, 4) for c in cases.of_threads(name, n, most)]
            self.assertGreaterEqual(len({c["row"] for c in rows}), 100)
            self.assertTrue(all(c["row"].endswith(("thread", "threads")) and c["threads"] for c in rows))
        every = cases.of_threads("elements", 2, 2)
        self.assertEqual(10, len({c["row"].split()[0] for c in every}))
        self.assertTrue({"exp 2^0, 2 threads", "exp 2^28, 2 threads"} <= {c["row"] for c in every})
        self.assertEqual({"copy", "add"}, {c["bare"].split()[0] for c in every if c["bare"]})
        self.assertEqual(10, len(cases.of_threads("elements", 2, 4)))
        named = [c["bare"].split() for c in cases.of_threads("convolutions", 2, 2) if c["bare"]]
        self.assertEqual({10}, {len(words) for words in named})

    def test_what_is_counted(self):
        self.assertEqual(2 * 5 * 7 * 3, SMALL["product"]["flops"])
        self.assertEqual(2 * 2 * 6 * 5 * 4 * 2 * 9, SMALL["forward"]["flops"])
        self.assertEqual(SMALL["forward"]["flops"], SMALL["by weight"]["flops"])
        self.assertEqual(2 * 24 * 4, SMALL["transpose"]["bytes"])
        self.assertEqual(4 * 4 * 8 * 8 * 16 / 2, SMALL["attention"]["flops"])


class Serve(unittest.TestCase):
    """The real side, on the reference backend."""

    def setUp(self):
        self.side = table.Side([SERVE], {"TENON_DEVICE": "reference"})
        self.assertEqual("", self.side.tell("open ieee"))

    def tearDown(self):
        self.side.close()
        self.side.process.stdout.close()

    def test_makes_and_times_every_kind(self):
        for name, case in SMALL.items():
            with self.subTest(name):
                self.assertIsNotNone(self.side.tell(table.command_of(case, "tenon")), self.side.fault)
                self.assertGreater(float(self.side.tell("time 0.1")), 0)

    def test_host_section(self):
        for case in cases.host():
            with self.subTest(case["row"]):
                self.assertIsNotNone(self.side.tell(table.command_of(case, "tenon")), self.side.fault)
                self.assertGreater(float(self.side.tell("host")), 0)

    def test_churn(self):
        self.assertGreaterEqual(float(self.side.tell("churn 300")), 1)

    def test_refuses_and_goes_on(self):
        for line in ("make nosuch", "make add nosuch=1 : f32:2", "make add : f32:2 f99:2", "make add : f32:2 f32:3",
                     "make add :" + " f32:2" * 30, "time 1", "host", "dance", "make sum axes : f32:2",
                     "between 1000", "make add : f32:-1 f32:-1"):
            with self.subTest(line):
                self.assertIsNone(self.side.tell(line))
                self.assertTrue(self.side.fault)
        self.assertEqual("reference.add", self.side.tell("make add : f32:2 f32:2").replace(".any", ""))


class Fake:
    """A side that answers from a list and remembers what it was told."""

    def __init__(self, log, name, times, broken=""):
        self.log, self.name, self.times, self.broken, self.fault = log, name, list(times), broken, ""

    def tell(self, line):
        word = line.split()[0]
        self.log.append((self.name, word))
        if word == self.broken:
            self.fault = "no " + word
            return None
        return str(self.times.pop(0)) if word in ("time", "host", "churn") else "kernel"

    def close(self):
        pass


class Driver(unittest.TestCase):
    options = argparse.Namespace(rounds=3, ms=1, until=float("inf"))

    def sides(self, **broken):
        self.log = []
        times = {"tenon": [20, 10, 40], "torch": [30, 30, 50], "bare": [15, 14, 13]}
        return {n: Fake(self.log, n, t, broken.get(n, "")) for n, t in times.items()}

    def row(self, sides, case=SMALL["product"]):
        limits = table.Limits({}, "NVIDIA H200")
        return table.row_of(case, *table.measured(case, sides, self.options), limits)

    def test_turns_and_medians(self):
        row = self.row(self.sides())
        self.assertEqual([n for n, w in self.log if w == "time"],
                         ["tenon", "torch", "bare", "torch", "bare", "tenon", "bare", "tenon", "torch"])
        self.assertAlmostEqual(row["tenon"], 210 / 20 / 1e3)
        self.assertAlmostEqual(row["ratio"], 14 / 20)
        self.assertEqual((row["limit"], row["unit"], row["tenon_spread"]), (67, "TFLOP/s", 4))
        self.assertEqual([n for n, w in self.log if w == "drop"], ["tenon", "torch", "bare"])

    def test_a_side_that_cannot(self):
        row = self.row(self.sides(torch="make", bare="time"))
        self.assertEqual(row["faults"], {"torch": "no make", "bare": "no time"})
        self.assertNotIn("ratio", row)
        self.assertIn("tenon", row)
        self.assertTrue(table.summary([row], 0, self.sides()))
        self.assertFalse(table.summary([self.row(self.sides(tenon="make"))], 0, self.sides()))

    def test_no_time_left(self):
        late = argparse.Namespace(rounds=3, ms=1, until=time.monotonic() - 1)
        with contextlib.redirect_stdout(io.StringIO()):
            rows, missed = table.run_section("host", list(cases.host()), self.sides(), table.Limits({}, ""), late,
                                              io.StringIO())
        self.assertEqual((rows, missed), ([], 20))

    def test_counts_of_threads(self):
        self.assertEqual([[1], [2, 1], [3, 1, 2], [16, 1, 8, 4, 2]],
                         [table.counts_of_threads(n) for n in (1, 2, 3, 16)])
        self.assertEqual("2", table.held_to(2)["OMP_NUM_THREADS"])
        self.assertEqual({}, table.held_to(0))

    def test_steps_are_taken_by_turns_and_once(self):
        turns = []

        def ours(build, data, device, steps, environment):
            turns.append(environment["TENON_NUM_THREADS"])
            return 10e3 + len(turns), 5e6
        options = argparse.Namespace(rounds=3, build="b", data="d", device="cpu", trained={}, ms=1, until=float("inf"))
        with unittest.mock.patch.object(table.training_step, "ours", ours), \
                unittest.mock.patch.object(table.training_step, "theirs", lambda *a: (20e3, 30e6)):
            step, peak = (table.row_of(case, *table.measured(case, {"torch": None}, options), table.Limits({}, "", 2))
                          for case in cases.of_threads("step", 2, 2))
        self.assertEqual(["2"] * 3, turns)
        self.assertEqual(("ms", 10.002, 20.0, "MB", 5.0, 30.0, 6.0, 2),
                         (step["unit"], step["tenon"], step["torch"], peak["unit"], peak["tenon"], peak["torch"],
                          peak["ratio"], peak["threads"]))

    def test_large_tensors_wait_for_memory(self):
        case = cases.of_threads("elements", 1, 1)[-1]
        with unittest.mock.patch.object(table, "memory_free", lambda: 1 << 20), \
                contextlib.redirect_stdout(io.StringIO()):
            rows, missed = table.run_section("elements", [case], self.sides(), table.Limits({}, "", 1), self.options,
                                             io.StringIO())
        self.assertEqual(([], 1), (rows, missed))

    def test_the_whole_on_the_reference(self):
        with tempfile.NamedTemporaryFile() as out:
            done = subprocess.run([sys.executable, os.path.join(ROOT, "bench/table/table.py"), "--build",
                                   os.path.dirname(os.path.dirname(os.path.dirname(SERVE))), "--device", "reference",
                                   "--rounds", "1", "--json", out.name, "host"], stdout=subprocess.PIPE, text=True)
            self.assertEqual(0, done.returncode, done.stdout)
            head, rows = pages.read(out.name)
        self.assertEqual((head["rounds"], len(rows)), (1, 20))
        self.assertIn("| conv2d | us |", done.stdout)


def sample():
    """Figures that nobody measured."""
    yield dict(bench="table", device="Example <GPU>", rounds=3, copy=4000.0, launch_ns=2500)
    for power in (0, 10, 20):
        yield dict(section="bandwidth", row=f"add 2^{power}", unit="GB/s", tenon=10.0 * (power + 1), torch=8.0,
                   limit=4000.0, ratio=1.2, op="add")
    for n in (128, 256):
        yield dict(section="products", row=f"{n}x{n}x{n} bf16", unit="TFLOP/s", tenon=n, torch=n / 2, bare=n * 2,
                   limit=989, ratio=0.5, op="matmul")
    yield dict(section="products", row="1x2x3 bf16 ta", unit="TFLOP/s", tenon=1, limit=None, op="matmul")
    yield dict(section="host", row="neg", unit="us", tenon=1.5, torch=3.0, limit=None, ratio=2.0, op="neg")


def processors_sample():
    """Such of a processor with 1, 2 and 4 threads."""
    for n in (4, 1, 2):
        yield dict(bench="table", device="Example", rounds=3, copy=10.0 * n, launch_ns=None, threads=n, torch="2.0")
        words = f", {n} thread" + "s" * (n > 1)
        for power in (0, 24, 28) if n != 2 else (24,):
            for op in ("add", "exp"):
                yield dict(section="elements", row=f"{op} 2^{power}{words}", unit="GB/s", tenon=n * (power + 1),
                           torch=8.0, limit=10.0, ratio=0.5 if op == "exp" and n == 1 else 1.2, op=op, threads=n)
        yield dict(section="step", row="training step of the CNN" + words, unit="ms", tenon=9.0 / n, torch=20.0,
                   limit=None, ratio=2.0, op="step", threads=n)
        yield dict(section="products", row=f"64x64x64 f32{words}", unit="GFLOP/s", tenon=5, limit=None, op="matmul",
                   threads=n)


class Page(unittest.TestCase):
    def made(self, rows, reasons=""):
        """The texts of a manual that got the page, and what went to standard error."""
        with tempfile.TemporaryDirectory() as folder:
            docs, lines = os.path.join(folder, "docs"), os.path.join(folder, "table.json")
            os.mkdir(docs)
            files = {lines: "\n".join(json.dumps({"bench": "table", **r}) for r in rows) + "\n\n{\"bench\": \"ops\"}\n",
                     os.path.join(folder, "why"): reasons, os.path.join(folder, "mkdocs.yml"): "  - D: devices.md\n",
                     os.path.join(docs, "index.md"): "See [that](support.md), more\n"}
            for name, text in files.items():
                with open(name, "w", encoding="utf-8") as out:
                    out.write(text)
            command = [sys.executable, os.path.join(ROOT, "bench/table/pages.py"), lines, "--docs", docs,
                       "--reasons", os.path.join(folder, "why")]
            for _ in range(2):  # the second run changes nothing more
                done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            if done.returncode:
                return {}, done.stderr
            found = {}
            for where in (folder, docs):
                for name in os.listdir(where):
                    if os.path.isfile(os.path.join(where, name)):
                        with open(os.path.join(where, name), encoding="utf-8") as text:
                            found[name] = text.read()
            return found, done.stderr

    def test_page_and_pictures(self):
        files, said = self.made(sample(), "# why\nproducts 1*x128* bf16 | it is small\nhost neg | gone\n")
        page = files["performance-cuda.md"]
        for heading in ("## Products over sizes", "## Bandwidth", "## Ratio per operator", "## What falls short"):
            self.assertIn(heading, page)
        self.assertIn("| 128x128x128 bf16 | TFLOP/s | 128 | 64 | 256 | 989 | 0.50 |", page)
        self.assertIn("| 1x2x3 bf16 ta | TFLOP/s | 1 | – | – | – | – |", page)
        self.assertIn("**128x128x128 bf16** (products): 0.50 of the best other. it is small.", page)
        self.assertIn("**256x256x256 bf16** (products): 0.50 of the best other. no reason is known yet.", page)
        self.assertNotIn("**add", page)
        self.assertIn("no row falls short for the reason of 'host neg'", said)
        for name in ("bandwidth", "products", "ratios"):
            self.assertIn(f"(performance-cuda-{name}.svg)", page)
            root = tree.fromstring(files[f"performance-cuda-{name}.svg"])
            self.assertTrue(root.tag.endswith("svg"))
        self.assertEqual("  - D: devices.md\n      - Speed on CUDA: performance-cuda.md\n", files["mkdocs.yml"])
        self.assertEqual("See [that](support.md), [speed on CUDA](performance-cuda.md), more\n", files["index.md"])

    def test_the_processors_page(self):
        files, _ = self.made(processors_sample(), "elements exp * | it is hard\n")
        page = files["performance-cpu.md"]
        for words in ("# Speed on the CPU", "with 1 and 2 and 4 threads", "10 GB/s on 1, 20 GB/s on 2, 40 GB/s on 4",
                      "PyTorch 2.0", "## The training step of the CNN", "## From 1 to 2^28 elements",
                      "## From one thread to all", "| training step of the CNN, 4 threads | ms | 2.25 | 20 |"):
            self.assertIn(words, page)
        self.assertIn("- **exp 2^0, 1 thread** (elements): 0.50 of the best other; 2^24 0.50, 2^28 0.50. it is hard.",
                      page)
        self.assertEqual(1, page.count("of the best other"))
        for name in ("elements", "threads", "products", "ratios"):
            self.assertIn(f"(performance-cpu-{name}.svg)", page)
            self.assertTrue(tree.fromstring(files[f"performance-cpu-{name}.svg"]).tag.endswith("svg"))
        self.assertIn("Tenon, 1 thread", files["performance-cpu-elements.svg"])
        self.assertNotIn("2 threads", files["performance-cpu-elements.svg"])
        self.assertIn("add of 2^24, GB/s", files["performance-cpu-threads.svg"])
        self.assertEqual(3, files["performance-cpu-threads.svg"].count("threads, 2^n"))
        self.assertIn("training steps, 1/s", files["performance-cpu-threads.svg"])

    def test_one_section_and_nothing_short(self):
        files, _ = self.made([r for r in sample() if r.get("section") in (None, "host")])
        self.assertIn("Nothing that was measured.", files["performance-cuda.md"])
        self.assertNotIn("performance-cuda-products.svg", files)

    def test_bad_files(self):
        for rows, reasons, words in (([], "", "no rows"), (list(sample()), "products x\n", "line 1"),
                                     (list(sample()), "products | because\n", "line 1")):
            files, said = self.made(rows, reasons)
            self.assertEqual({}, files)
            self.assertIn(words, said)

    def test_committed_reasons(self):
        for kind in (pages.Cuda, pages.Cpu):
            pages.read_reasons(os.path.join(ROOT, "bench/table", kind.reasons))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
