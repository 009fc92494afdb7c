"""Takes the place of the package where peers.py is tried: its server is the stand-in's."""

import atexit
import json
import os
import subprocess
import sys
from types import SimpleNamespace

STAND_IN = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "stand_in.py")

ggml_type = SimpleNamespace(GGML_TYPE_F32=0)


def CommonParams():
    return SimpleNamespace(model=SimpleNamespace(), cpuparams=SimpleNamespace(), cpuparams_batch=SimpleNamespace())


def get_system_info():
    return "a stand-in | "


class Server:
    def __init__(self, params):
        words = [sys.executable, "-SEB", STAND_IN, "serve", "--served-name", "moebius", "--address", f"127.0.0.1:{params.port}"]
        process = subprocess.Popen(words, stdout=subprocess.PIPE)
        atexit.register(process.kill)
        self.listening_address = "http://" + json.loads(process.stdout.readline())["address"]
