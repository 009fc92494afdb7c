"""Tests of the plan, of the functions behind its names, and of the pinned versions."""

import ast
import glob
import os
import re
import unittest

import outside
import plan
import run

HERE = os.path.dirname(os.path.abspath(__file__))


def text_of(*names):
    with open(os.path.join(HERE, *names), encoding="utf-8") as file:
        return file.read()


def table(name):
    """The names in the table CHECKS of a client that can't be imported here, because it imports its package."""
    for statement in ast.parse(text_of(name)).body:
        if isinstance(statement, ast.Assign) and statement.targets[0].id == "CHECKS":
            return tuple(ast.literal_eval(key) for key in statement.value.keys)
    raise AssertionError(f"{name} has no CHECKS")


class Names(unittest.TestCase):
    def test_each_check_has_its_function(self):
        scripts = {"openai-current": "sdk.py", "openai-previous": "sdk.py", "langchain": "langchain_client.py"}
        modules = {"openai-node": "openai.mjs", "ai-sdk": "ai.mjs"}
        for group in plan.GROUPS:
            if group.name in run.INSIDE:
                names = tuple(run.INSIDE[group.name])
            elif group.name in scripts:
                names = table(scripts[group.name])
            else:
                names = tuple(re.findall(r"^  async (\w+)\(given\)", text_of("node", modules[group.name]), re.MULTILINE))
            self.assertEqual(sorted(names), sorted(group.checks), group.name)
        others = {group.name for group in plan.GROUPS} - run.INSIDE.keys()
        self.assertEqual(others, outside.CLIENTS.keys())

    def test_a_part_of_a_name_chooses(self):
        self.assertEqual(plan.chosen(""), [group for group in plan.GROUPS if not group.apart])
        one = plan.chosen("faults: drain")
        self.assertEqual([(group.name, group.checks) for group in one], [("faults", ("drain",))])
        self.assertEqual(plan.needs(one), [])
        openai = plan.chosen("openai-")
        self.assertEqual(plan.needs(openai), ["current", "previous", "node"])
        with self.assertRaisesRegex(plan.UnknownCheck, "nothing"):
            plan.chosen("nothing")

    def test_what_stands_apart_is_chosen_by_its_name(self):
        apart = [group for group in plan.GROUPS if group.apart]
        self.assertTrue(apart)
        for group in apart:
            for text in (group.name, group.names()[0]):
                self.assertEqual([one.name for one in plan.chosen(text)], [group.name])
            with self.assertRaises(plan.UnknownCheck):
                plan.chosen(group.names()[0][1:])

    def test_sources_parse(self):
        for path in glob.glob(os.path.join(HERE, "*.py")):
            with self.subTest(path):
                compile(text_of(path), path, "exec")


class Versions(unittest.TestCase):
    def test_all_are_exact(self):
        for need in ("current", "previous", "schemathesis", "weights", "xllamacpp", "mistralrs"):
            lines = [line for line in text_of(f"{need}.txt").splitlines() if not line.startswith("#")]
            self.assertTrue(all(re.fullmatch(r"[a-z0-9-]+==[0-9][\w.]*", line) for line in lines), need)
        pins = re.findall(r'": "([^"]+)"', text_of("node", "package.json").split('"dependencies"')[1])
        self.assertTrue(pins and all(re.fullmatch(r"\d+\.\d+\.\d+", pin) for pin in pins), pins)

    def test_two_majors_of_openai(self):
        majors = [int(re.search(r"^openai==(\d+)", text_of(f"{need}.txt"), re.MULTILINE)[1]) for need in ("current", "previous")]
        self.assertEqual(majors[0] - majors[1], 1)


if __name__ == "__main__":
    unittest.main()
