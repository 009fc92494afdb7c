"""Checks that programs of others do: SDKs in environments of their own, packages of npm, and schemathesis."""

import json
import os
import shutil

import report
import served
from report import Found, Wrong

KEY = "sk-0123456789abcdef"

# Seconds for all checks of one client.
SECONDS = 600

# Drawn requests for each endpoint and phase, and the server's context, which bounds how long an answer takes.
EXAMPLES, CONTEXT = 40, 64


def lines_of(text):
    """The objects that a client printed, a line for each; other lines are a library's."""
    lines = []
    for line in text.splitlines():
        try:
            lines.append(json.loads(line))
        except ValueError:
            continue
    return [line for line in lines if isinstance(line, dict)]


async def client(kit, group, words):
    """Runs a client with the group's checks as its last words, and returns their verdicts."""
    status, said = await kit.run([*words, *group.checks], seconds=SECONDS)
    lines = lines_of(said)
    for line in lines:
        if "versions" in line:
            kit.versions[group.name] = line["versions"]
    # A client that could not begin says why in its last line.
    last = next((line.strip() for line in reversed(said.splitlines()) if line.strip()), "")
    return report.of_lines(group.name, group.checks, lines, f"{status}: {last[:300]}")


async def sdk(kit, group):
    keys = os.path.join(kit.scratch, "keys")
    with open(keys, "w", encoding="utf-8") as file:
        file.write(f"{KEY}\n")
    async with (served.Served(kit) as plain, served.Served(kit, "--keys", keys) as keyed,
                served.Served(kit, "--running", 1, "--queued", 0) as narrow):
        urls = [f"http://{server.address}/v1" for server in (plain, keyed, narrow)]
        words = ["--plain", urls[0], "--keyed", urls[1], "--key", KEY, "--narrow", urls[2], "--model", served.MODEL]
        return await client(kit, group, [kit.python(*group.needs), os.path.join(kit.here, "sdk.py"), *words])


async def langchain(kit, group):
    async with served.Served(kit) as server:
        words = ["--plain", f"http://{server.address}/v1", "--model", served.MODEL]
        return await client(kit, group, [kit.python("current"), os.path.join(kit.here, "langchain_client.py"), *words])


async def node(kit, group):
    script = {"openai-node": "openai.mjs", "ai-sdk": "ai.mjs"}[group.name]
    folder = os.path.join(kit.cache, "node")
    # A module looks for packages in the folders above its own.
    for name in os.listdir(os.path.join(kit.here, "node")):
        if name.endswith(".mjs"):
            shutil.copyfile(os.path.join(kit.here, "node", name), os.path.join(folder, name))
    async with served.Served(kit) as server:
        return await client(kit, group, ["node", os.path.join(folder, script), f"http://{server.address}/v1", served.MODEL])


async def schemathesis(kit):
    """No request that schemathesis draws from the document makes the server fail."""
    async with served.Served(kit, "--context", CONTEXT) as server:
        words = [kit.program("schemathesis", "schemathesis"), "run", f"http://{server.address}/openapi.json",
                 "--checks", "not_a_server_error", "--phases", "examples,coverage,fuzzing", "--max-examples", EXAMPLES, "--seed", 1,
                 "--generation-database", "none", "--continue-on-failure", "--workers", 2, "--request-timeout", 60, "--no-color"]
        hooks = {"SCHEMATHESIS_HOOKS": "schema_hooks", "PYTHONPATH": kit.here}
        status, said = await kit.run(words, seconds=SECONDS, variables=hooks)
        metrics = await server.metrics()
        ready = await server.status("/health/ready")
    failures = metrics.by("moebius_request_failures_total", "code")
    faults = {code: count for code, count in failures.items() if code.startswith("5")}
    if status != 0 or faults or ready != 200:
        raise Wrong(f"status {status}, failures {failures}, ready {ready}: {said[-1500:]}")
    answered = metrics.total("moebius_request_success_total")
    if not answered or not failures.get("400"):
        raise Wrong(f"expected answers and refusals of drawn requests, got {answered:g} and {failures}")
    refused = sum(failures.values())
    said = f"{EXAMPLES} examples of each endpoint and more of its limits: {answered:g} answers, {refused:g} refusals, no status from 500 on"
    return Found(said, {"answers": answered, "failures": failures})


CLIENTS = {"openai-current": sdk, "openai-previous": sdk, "langchain": langchain, "openai-node": node, "ai-sdk": node}
CHECKS = {"no fault of the server": schemathesis}
