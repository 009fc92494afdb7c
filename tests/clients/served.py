"""A server under test: `moebius serve` as a process that this program starts, asks and ends."""

import asyncio
import json
import os
import shutil
import signal
import time
from typing import NamedTuple

import exposition
import wire
from report import Wrong

# Name under which clients ask for the model.
MODEL = "moebius"

# The bundled model has no chat template, so that conversations need one: a line for each message, and before them one for each tool.
TEMPLATE = """{%- for tool in tools or [] %}Tool: {{ tool.function.name }} {{ tool.function.parameters | tojson }}
{% endfor -%}
{%- for message in messages %}{{ message.role }}: {{ message.content }}
{% endfor -%}
{%- if add_generation_prompt %}assistant:{% endif -%}
"""

# Seconds in which a server must be ready.
START = 120


def make_model(shipped, folder):
    """Makes a folder of the bundled model's files with a chat template."""
    os.makedirs(folder)
    for name in sorted(os.listdir(shipped)):
        if name.endswith(".json") or name == "model.safetensors":
            shutil.copyfile(os.path.join(shipped, name), os.path.join(folder, name))
    with open(os.path.join(folder, "chat_template.jinja"), "w", encoding="utf-8") as file:
        file.write(TEMPLATE)


class Card(NamedTuple):
    """A card in software: the device's name, the variables by which programs find it, and seconds until a server on it must be ready."""

    device: str
    variables: dict
    start: int


class Served:
    """A server, from `async with` to its end."""

    def __init__(self, kit, *options, port=0, bundled=False, model=None, card=None):
        """`bundled` takes the model inside of the program, which has no chat template, `model` another one than the kit's; `card` is a card
        in software, in place of the kit's device.
        """
        self.kit, self.port = kit, port
        self.device, self.variables, self.start = card or (kit.device, {}, START)
        self.options = (*(() if bundled else ("--model", model or kit.model)), *options)
        self.process = self.address = self.ready_s = None

    async def __aenter__(self):
        begun = time.monotonic()
        words = [self.kit.moebius, "serve", "--json", "--device", self.device, "--served-name", MODEL,
                 "--address", f"127.0.0.1:{self.port}", *map(str, self.options)]
        variables = dict(os.environ) | self.variables
        variables.pop("MOEBIUS_API_KEYS", None)
        self.log = self.kit.log_path()
        with open(self.log, "wb") as log:
            self.process = await asyncio.create_subprocess_exec(*words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
                                                                stderr=log, env=variables)
        try:
            line = await asyncio.wait_for(self.process.stdout.readline(), self.start)
            if not line:
                raise Wrong(f"the server ended with {await self.process.wait()} before it told its address: {self.last_words()}")
            self.address = json.loads(line)["address"]
            await self.until_ready(begun)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_):
        if self.process.returncode is None:
            self.process.kill()
        await self.process.wait()

    async def until_ready(self, begun):
        while time.monotonic() - begun < self.start:
            if self.process.returncode is not None:
                raise Wrong(f"the server ended with {self.process.returncode} before it was ready: {self.last_words()}")
            if await self.status("/health/ready") == 200:
                self.ready_s = time.monotonic() - begun
                return
            await asyncio.sleep(0.02)
        raise Wrong(f"the server was not ready within {self.start} s: {self.last_words()}")

    async def status(self, path):
        """The status of an answer to GET; None where there is no answer."""
        try:
            return (await wire.call(self.address, "GET", path, seconds=10)).status
        except wire.Broken:
            return None

    async def post(self, path, body, **more):
        return await wire.call(self.address, "POST", path, body, **more)

    async def answer(self, path, body):
        """The object that a request is answered with. Raises Wrong for an error."""
        reply = await self.post(path, body)
        if reply.status != 200:
            raise Wrong(f"{path}: expected status 200, got {reply.status}: {reply.body[:300]!r}")
        return reply.json()

    async def metrics(self):
        reply = await wire.call(self.address, "GET", "/metrics")
        if reply.status != 200:
            raise Wrong(f"/metrics: expected status 200, got {reply.status}")
        return exposition.Metrics(reply.body.decode())

    async def until_idle(self, seconds):
        """Waits until no answer runs or waits and no page is in use; returns how long that took."""
        begun = time.monotonic()
        names = ("moebius_num_requests_running", "moebius_num_requests_waiting", "moebius_kv_cache_usage_perc")
        while True:
            metrics = await self.metrics()
            busy = {name: metrics.total(name) for name in names if metrics.total(name)}
            took = time.monotonic() - begun
            if not busy:
                return took
            if took > seconds:
                raise Wrong(f"not idle within {seconds} s: {busy}")
            await asyncio.sleep(0.05)

    async def until(self, value, name, seconds=1, **labels):
        """Waits a moment until a metric has a value, and returns the last one: a response is counted when its connection has taken it, and
        an answer that waits when a step has ended.
        """
        for _ in range(20 * seconds):
            got = (await self.metrics()).total(name, **labels)
            if got == value:
                break
            await asyncio.sleep(0.05)
        return got

    def kill(self):
        self.process.kill()

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    async def ended(self, seconds):
        """The exit status, once the process has ended. Raises Wrong where it doesn't."""
        try:
            return await asyncio.wait_for(self.process.wait(), seconds)
        except asyncio.TimeoutError as error:
            raise Wrong(f"the server did not end within {seconds} s: {self.last_words()}") from error

    def resident(self):
        """Bytes of the process in memory."""
        with open(f"/proc/{self.process.pid}/status", encoding="utf-8") as file:
            line = next(line for line in file if line.startswith("VmRSS:"))
        return int(line.split()[1]) << 10

    def files(self):
        """Number of the process's open files, connections among them."""
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def threads(self):
        """Number of the process's threads."""
        return len(os.listdir(f"/proc/{self.process.pid}/task"))

    def last_words(self):
        return last_words(self.log)


def last_words(log):
    """The end of a program's log."""
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return " / ".join(lines[-3:])[-600:] or "it said nothing"


def chat(text, **more):
    """A conversation of one message, for the likeliest answer unless told otherwise."""
    return {"model": MODEL, "messages": [{"role": "user", "content": text}], "temperature": 0, **more}


def completion(prompt, **more):
    """A text to continue with the likeliest tokens unless told otherwise."""
    return {"model": MODEL, "prompt": prompt, "temperature": 0, **more}


# A stream that takes as long as the bundled model's context lets it.
def long_stream(text, tokens=400):
    return chat(text, max_completion_tokens=tokens, ignore_eos=True, stream=True, stream_options={"include_usage": True})
