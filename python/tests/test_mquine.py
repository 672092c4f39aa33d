"""Tests of the installed package. Run them with: python -m unittest discover python/tests"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import mquine


class TestPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.dir = pathlib.Path(cls.folder.name)
        mquine.run("demo", keep=cls.dir / "demo")
        cls.data = cls.dir / "demo" / "families"
        cls.checkpoint = cls.dir / "demo" / "checkpoint"

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def test_command(self) -> None:
        for line in ["mquine"], [sys.executable, "-m", "mquine"]:
            done = subprocess.run(line + ["--version"], stdout=subprocess.PIPE, check=True, encoding="utf-8")
            self.assertRegex(done.stdout, r"^mquine \S+")
            self.assertEqual(2, subprocess.run(line + ["nosuch"], stderr=subprocess.DEVNULL).returncode)

    def test_command_names_itself(self) -> None:
        script = shutil.which("mquine")
        for line in ["mquine"], [sys.executable, "-m", "mquine"]:
            done = subprocess.run(
                line + ["--version"], env={**os.environ, "MQUINE": script}, stdout=subprocess.PIPE, check=True,
                encoding="utf-8", timeout=20,
            )
            self.assertRegex(done.stdout, r"^mquine \S+")
        with unittest.mock.patch.dict(os.environ, MQUINE=script):
            self.assertRegex(mquine.run("version"), r"^mquine \S+")

    def test_other_command(self) -> None:
        with unittest.mock.patch.dict(os.environ, MQUINE=pathlib.Path(sys.executable).name):
            for line in ["mquine"], [sys.executable, "-m", "mquine"]:
                done = subprocess.run(line + ["-c", "print(6 * 7)"], stdout=subprocess.PIPE, check=True)
                self.assertEqual(b"42", done.stdout.strip())
            self.assertEqual(shutil.which(os.environ["MQUINE"]), mquine.executable())
        plain = self.dir / "plain"
        plain.write_text("")
        for path in str(self.dir / "absent"), str(plain), str(self.dir), "no-such-command":
            for line in ["mquine"], [sys.executable, "-m", "mquine"]:
                done = subprocess.run(
                    line + ["version"], env={**os.environ, "MQUINE": path}, stderr=subprocess.PIPE, encoding="utf-8",
                )
                self.assertEqual(1, done.returncode)
                self.assertRegex(done.stderr, r"^mquine: \S+ cannot be started \(.+\): install .+ of the command\n$")

    def test_evaluate(self) -> None:
        result = mquine.evaluate(self.checkpoint, self.data, hits=[1, 10], by="relation")
        self.assertRegex(result["schema"], r"^mquine\.eval/\d+$")
        with self.assertRaises(mquine.Error) as caught:
            mquine.evaluate(self.dir / "none", self.data)
        self.assertEqual(1, caught.exception.status)
        self.assertRegex(str(caught.exception), r"^mquine eval: .*none")
        with self.assertRaisesRegex(mquine.Error, "unknown flag --sidez"):
            mquine.evaluate(self.checkpoint, self.data, sidez="both")

    def test_ensemble(self) -> None:
        both = [self.checkpoint, str(self.checkpoint)]
        head, relation, _ = (self.data / "test.txt").read_text().splitlines()[0].split("\t")
        result = mquine.evaluate(both, self.data, ensemble="equal")
        self.assertEqual(2, len(result["provenance"]["checkpoint"]["members"]))
        for result in (
            mquine.predict(both, self.data, relation=relation, head=head, ensemble="equal"),
            mquine.discover(both, self.data, k=3, ensemble="equal"),
            mquine.score(both, self.data / "test.txt", ensemble="equal"),
            mquine.classify(both, self.data, ensemble="equal"),
        ):
            self.assertRegex(result["schema"], r"^mquine\.")

    def test_compare(self) -> None:
        result = mquine.compare([self.checkpoint, self.checkpoint], self.data)
        self.assertRegex(result["schema"], r"^mquine\.compare/\d+$")
        with self.assertRaisesRegex(mquine.Error, "give at least two checkpoints"):
            mquine.compare(str(self.checkpoint), self.data)

    def test_lists(self) -> None:
        for hits in [1, 2, 10], (1, 2, 10), {10, 2, 1}, iter([1, 2, 10]):
            result = mquine.evaluate(self.checkpoint, self.data, hits=hits)
            names = [name for name in result["results"][0] if name.startswith("hits@")]
            self.assertEqual({"hits@1", "hits@2", "hits@10"}, set(names))
        result = mquine.evaluate(os.fsencode(self.checkpoint), os.fsencode(self.data), hits=range(1, 4))
        self.assertIn("hits@3", result["results"][0])

    def test_repeated_flags(self) -> None:
        triples = [line.split("\t") for line in (self.data / "train.txt").read_text().splitlines()]
        relations = sorted({relation for _, relation, _ in triples})
        two = relations[:2]
        result = mquine.discover(self.checkpoint, self.data, relation=two, per="relation", k=1)
        self.assertEqual(set(two), {found["relation"] for found in result["triples"]})
        with self.assertRaisesRegex(mquine.Error, "none"):
            mquine.discover(self.checkpoint, self.data, relation=[two[0], "none"])
        with self.assertRaisesRegex(mquine.Error, "relation"):
            mquine.discover(self.checkpoint, self.data, relation=[])

        head, relation, _ = triples[0]
        entities = sorted({entity for triple in triples for entity in (triple[0], triple[2])})
        types = self.dir / "types.tsv"
        types.write_text("".join("%s\t%s\n" % (entity, "abc"[i % 3]) for i, entity in enumerate(entities)))
        result = mquine.predict(
            self.checkpoint, self.data, relation=relation, head=head, k=len(entities), types=types,
            candidate_type=["a", "b"],
        )
        found = {answer["tail"] for answer in result["answers"]}
        self.assertEqual({0, 1}, {entities.index(entity) % 3 for entity in found})

    def test_wrong_arguments(self) -> None:
        for message, call in {
            r"similar: the argument .+ \(a NUL character\)": lambda: mquine.similar(self.checkpoint, "a\0b"),
            "similar: the argument .+ surrogate": lambda: mquine.similar(self.checkpoint, "\ud800"),
            "similar: the argument cannot be": lambda: mquine.similar(self.checkpoint, ["a", "b"]),
            "predict: --head .+ NUL": lambda: mquine.predict(self.checkpoint, self.data, relation="r", head="a\0b"),
            "eval: --hits cannot be": lambda: mquine.evaluate(self.checkpoint, self.data, hits={1: 2}),
            "eval: --hits cannot be None": lambda: mquine.evaluate(self.checkpoint, self.data, hits=[None]),
            "eval: leave out json": lambda: mquine.evaluate(self.checkpoint, self.data, json="result.json"),
        }.items():
            with self.subTest(message), self.assertRaisesRegex(mquine.Error, "^mquine " + message) as caught:
                call()
            self.assertEqual(2, caught.exception.status)

    def test_no_result(self) -> None:
        with self.assertRaisesRegex(mquine.Error, r"^mquine eval: \S+ has printed no JSON result: leave out help"):
            mquine.evaluate(self.checkpoint, self.data, help=True)

    def test_predict(self) -> None:
        head, relation, _ = (self.data / "test.txt").read_text().splitlines()[0].split("\t")
        result = mquine.predict(self.checkpoint, self.data, relation=relation, head=head, k=3)
        self.assertRegex(result["schema"], r"^mquine\.predict/\d+$")
        result = mquine.predict(self.checkpoint, self.data, head=head, tail=head, k=2)
        self.assertEqual(["relation"] * 2, [a["answer"] for a in result["answers"]])

    def test_other_commands(self) -> None:
        head = (self.data / "test.txt").read_text().split("\t")[0]
        for name, result in {
            "discover": mquine.discover(self.checkpoint, self.data, k=3),
            "score": mquine.score(self.checkpoint, self.data / "test.txt"),
            "classify": mquine.classify(self.checkpoint, self.data),
            "similar": mquine.similar(self.checkpoint, head, k=2),
        }.items():
            self.assertRegex(result["schema"], r"^mquine\.%s/\d+$" % name)

    def test_environment(self) -> None:
        os.environ["MQUINE"] = sys.executable
        try:
            self.assertEqual(sys.executable, mquine.executable())
        finally:
            del os.environ["MQUINE"]

    def test_missing_command(self) -> None:
        os.environ["MQUINE"] = str(self.dir / "absent")
        try:
            with self.assertRaises(mquine.Error) as caught:
                mquine.run("version")
        finally:
            del os.environ["MQUINE"]
        self.assertEqual(1, caught.exception.status)
        self.assertRegex(str(caught.exception), r"^\S*absent cannot be started \(.+\): install the package again, or set")

    @unittest.skipIf(os.name == "nt", "needs a shell")
    def test_messages(self) -> None:
        command = self.dir / "command"
        with unittest.mock.patch.dict(os.environ, MQUINE=str(command)):
            command.write_text("#!/bin/sh\necho epoch 1 >&2\necho 'note: tails differ' >&2\necho {}\n")
            command.chmod(0o755)
            with self.assertWarnsRegex(UserWarning, "^mquine eval: tails differ$"):
                self.assertEqual({}, mquine.evaluate("c", "d"))
            for call in (
                lambda: mquine.evaluate("c", "d"), lambda: mquine.compare(["c", "c"], "d"),
                lambda: mquine.predict("c", "d"), lambda: mquine.discover("c", "d"), lambda: mquine.score("c", "t"),
                lambda: mquine.classify("c", "d"), lambda: mquine.similar("c", "e"), lambda: mquine.run("eval"),
            ):
                with self.assertWarns(UserWarning) as caught:
                    call()
                self.assertEqual(__file__, caught.filename)
            command.write_text("#!/bin/sh\necho epoch 1 >&2\nkill -KILL $$\n")
            with self.assertRaisesRegex(mquine.Error, "^mquine train was killed by signal 9: ") as caught:
                mquine.run("train")
            self.assertEqual(-9, caught.exception.status)

    def test_interrupted_script(self) -> None:
        from mquine.__main__ import _call

        class Process:
            waits = 0

            def wait(self) -> int:
                self.waits += 1
                if self.waits < 3:
                    raise KeyboardInterrupt
                return 130

        with unittest.mock.patch("subprocess.Popen", return_value=Process()):
            self.assertEqual(130, _call(["mquine"]))


if __name__ == "__main__":
    unittest.main()
