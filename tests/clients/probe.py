"""Asks a server the same again and again, a connection each time, in a process of its own, so that nothing else delays what it measures.

Usage: python3 probe.py HOST:PORT METHOD PATH COUNT PAUSE_S [BODY]
Prints a line of JSON for each answer: its status (null without an answer), and the seconds from before the connection to the answer's end.
"""

import http.client
import json
import sys
import time


def main(address, method, path, count, pause, body=None):
    for _ in range(int(count)):
        begun, status = time.perf_counter(), None
        connection = http.client.HTTPConnection(address, timeout=60)
        try:
            headers = {"content-type": "application/json"} if body else {}
            connection.request(method, path, body=body, headers=headers)
            answer = connection.getresponse()
            answer.read()
            status = answer.status
        except (OSError, http.client.HTTPException):
            pass  # told as no status
        finally:
            connection.close()
        print(json.dumps({"status": status, "seconds": time.perf_counter() - begun}), flush=True)
        time.sleep(float(pause))


if __name__ == "__main__":
    main(*sys.argv[1:])
