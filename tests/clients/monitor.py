"""Checks of the metrics by Prometheus itself: its linter, its rules, and a scraper that tells the same numbers as the server."""

import asyncio
import json
import os
import random
import time
import urllib.parse

import asked
import exposition
import load
import served
import wire
from report import Found, Wrong

# What the linter may say: vLLM's name, under which boards expect a histogram.
EXCUSED = ('moebius_iteration_tokens_total non-counter metrics should not have "_total" suffix',)

# Requests before the numbers are compared, and seconds in which the scraper must have them.
REQUESTS, SCRAPED_WITHIN = 40, 30

CONFIGURATION = """
global: {{scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}}
rule_files: [{rules}]
scrape_configs:
  - job_name: moebius
    static_configs: [{{targets: ["{address}"]}}]
"""


async def listed_metrics(kit):
    """The server tells the metrics of docs/deploy/metrics.tsv, and no others."""
    with open(os.path.join(kit.tree, "docs", "deploy", "metrics.tsv"), encoding="utf-8") as file:
        text = file.read()
    listed = exposition.listed(text)
    async with served.Served(kit) as server:
        types = (await server.metrics()).types
    absent, others = listed.keys() - types.keys() - exposition.labelled(text), types.items() - listed.items()
    if absent or others:
        raise Wrong(f"expected {sorted(absent)}, got {sorted(others)}")
    return Found(f"{len(types)} of {len(listed)} metrics, each of the listed type; the others begin with an event")


async def promtool_metrics(kit):
    """promtool finds nothing in the metrics but what is excused."""
    async with served.Served(kit, "--experts") as server:
        await load.counted(server, random.Random(1), 20, 4)
        text = (await wire.call(server.address, "GET", "/metrics")).body
    status, said = await kit.run([kit.prometheus("promtool"), "check", "metrics"], text)
    others = [line for line in said.splitlines() if line.strip() and line.strip() not in EXCUSED]
    # 3 says that the linter has found something.
    if others or status not in (0, 3):
        raise Wrong(f"promtool ended with {status}: {'; '.join(others)[:600]}")
    return Found(f"{len(text.splitlines())} lines, nothing found but {len(EXCUSED)} name of vLLM's")


async def promtool_rules(kit):
    """promtool takes the alerts of docs/deploy/."""
    rules = os.path.join(kit.tree, "docs", "deploy", "prometheus", "alerts.yml")
    status, said = await kit.run([kit.prometheus("promtool"), "check", "rules", rules])
    if status != 0:
        raise Wrong(f"promtool ended with {status}: {said[-600:]}")
    return Found(said.strip().splitlines()[-1].strip())


class Scraper:
    """Prometheus, which scrapes a server every second, from `async with` to its end."""

    def __init__(self, kit, server):
        self.kit, self.server = kit, server

    async def __aenter__(self):
        folder = self.kit.folder("prometheus")
        configuration = os.path.join(folder, "prometheus.yml")
        rules = os.path.join(self.kit.tree, "docs", "deploy", "prometheus", "alerts.yml")
        with open(configuration, "w", encoding="utf-8") as file:
            file.write(CONFIGURATION.format(rules=json.dumps(rules), address=self.server.address))
        self.address = f"127.0.0.1:{self.kit.free_port()}"
        words = [self.kit.prometheus("prometheus"), f"--config.file={configuration}", f"--web.listen-address={self.address}",
                 f"--storage.tsdb.path={os.path.join(folder, 'data')}"]
        with open(self.kit.log_path(), "wb") as log:
            self.process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def get(self, path):
        """The data of an answer; None before there is one."""
        try:
            reply = await wire.call(self.address, "GET", path, seconds=10)
        except wire.Broken:
            return None
        return reply.json()["data"] if reply.status == 200 else None

    async def value(self, expression):
        """The sum of an expression's values; None before there is one."""
        found = await self.get("/api/v1/query?" + urllib.parse.urlencode({"query": f"sum({expression})"}))
        return float(found["result"][0]["value"][1]) if found and found["result"] else None


async def until(what, ask, good):
    """Asks until the answer is good. Raises Wrong with the last answer."""
    begun, got = time.monotonic(), None
    while time.monotonic() - begun < SCRAPED_WITHIN:
        got = await ask()
        if got is not None and good(got):
            return got
        await asyncio.sleep(0.25)
    raise Wrong(f"{what}: not so within {SCRAPED_WITHIN} s, got {got}")


async def scrape(kit):
    """Prometheus reads every sample, has the server's own numbers, and evaluates the alerts."""
    async with served.Served(kit) as server, Scraper(kit, server) as scraper:
        await until("the server is up", lambda: scraper.value("up"), lambda up: up == 1)
        await load.counted(server, random.Random(3), REQUESTS, 4)
        await server.until_idle(10)
        # The last response is counted when its connection has taken it.
        await asyncio.sleep(0.5)
        metrics = await server.metrics()
        compared = 0
        for name, kind in metrics.types.items():
            sample = f"{name}_count" if kind == "histogram" else name
            if not any(one.name == sample for one in metrics.samples):
                continue  # a family without a sample yet
            want = metrics.total(sample)
            await until(f"{sample} is {want}", lambda: scraper.value(sample), lambda got: abs(got - want) <= 1e-6 * abs(want))
            compared += 1
        targets = (await scraper.get("/api/v1/targets"))["activeTargets"]
        faults = [target["lastError"] for target in targets if target["lastError"]]

        def all_good(groups):
            return all(rule["health"] == "ok" for group in groups["groups"] for rule in group["rules"])

        rules = await until("the alerts are evaluated", lambda: scraper.get("/api/v1/rules"), all_good)
    if faults:
        raise Wrong(f"expected a scrape without an error, got {faults}")
    alerts = sum(len(group["rules"]) for group in rules["groups"])
    return Found(f"{compared} metrics with the server's own numbers, {alerts} alerts evaluated",
                 {"metrics": compared, "alerts": alerts, "requests": asked.told(exposition.Metrics(""), metrics)})


CHECKS = {"listed metrics": listed_metrics, "promtool metrics": promtool_metrics, "promtool rules": promtool_rules, "scrape": scrape}
