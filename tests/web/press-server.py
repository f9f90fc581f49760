# press-server.py: asks a server what it should answer and what it should not; prints TAP.
# SPDX-License-Identifier: MIT
import json
import os
import random
import socket
import subprocess
import sys
import tempfile
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from server import SCENARIO, Server

COUNT = 0


def check(holds, name, detail=""):
    global COUNT
    COUNT += 1
    print("%s %d - %s" % ("ok" if holds else "not ok", COUNT, name))
    if not holds:
        print("# %s" % str(detail)[:600])


def same(result, expected):
    """The server runs four of the plans at most: the others can be a hair slower (sim/run/fold.c)."""
    return abs(result["step_time_ps"] / expected["step_time_ps"] - 1) < 0.005 \
        and all(result[key] == expected[key] for key in ("peak_allocated_bytes", "peak_reserved_bytes", "outcome"))


def answers(server):
    status, text = server.get("/")
    check(status == 200 and "<canvas" not in text and '"controls"' in text, "the page is served", status)
    expected = json.loads(subprocess.run([os.environ["ZEROSIM"], "run", SCENARIO, "--set", "stage=2", "--json", "--no-advice"],
                                         check=True, capture_output=True, text=True).stdout)
    status, text = server.get("/run?stage=2")
    result = json.loads(text)["scenarios"][0]["result"]
    check(same(result, expected), "numbers of a state are those of run --set", status)
    status, text = server.get("/scenario.yaml?stage=2&micro_batch=4")
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        again = subprocess.run([os.environ["ZEROSIM"], "run", file.name, "--json", "--no-advice"], capture_output=True, text=True)
    there = json.loads(server.get("/run?micro_batch=4&stage=2")[1])["scenarios"][0]["result"]
    check(again.returncode == 0 and same(there, json.loads(again.stdout)),
          "the downloaded scenario runs to the same", again.stderr)
    config = json.loads(server.get("/ds_config.json?stage=2")[1])
    check(config["zero_optimization"]["stage"] == 2, "the ds_config can be downloaded", config)


def refusals(server):
    check(server.get("/run?stage=9")[0] == 400, "a value that is not offered is refused")
    check(server.get("/run?model=/etc/passwd")[0] == 400, "a path is no model")
    check(server.get("/run?cluster.fabric=/etc/passwd")[0] == 400, "nor is a setting's own path a control")
    check([server.get(path)[0] for path in ("/etc/passwd", "/../../etc/passwd", "/page.css", "//run")] == [404] * 4, "there are no other pages")
    check(server.get("/", headers={"Host": "evil.example"})[0] == 403, "another host's name is refused")
    check(server.get("/", method="POST", body="x" * 100000)[0] == 405 and server.get("/run", method="DELETE")[0] == 405, "only GET is answered")
    check(server.get("/run?" + "&".join("stage=2" for _ in range(100)))[0] == 400, "too many parameters are refused")
    with socket.socket() as other:
        reached = True
        try:
            other.settimeout(2)
            address = [a[4][0] for a in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
            address = [a for a in address if not a.startswith("127.")]
            if address:
                other.connect((address[0], server.port))
            else:
                reached = False
        except OSError:
            reached = False
    check(not reached, "nothing but the loopback is listened to")


def fuzz(server):
    seed = 20260
    numbers = random.Random(seed)
    words = [b"GET ", b"/run?", b"stage=", b"2", b"%00", b"%zz", b"&", b"HTTP/1.1", b"\r\n", b"Host: 127.0.0.1", b"Content-Length: 99999999999",
             b"\xff\xfe", b"A" * 5000, b"Transfer-Encoding: chunked", b"..", b"\0"]
    for _ in range(300):
        with socket.socket() as client:
            client.settimeout(5)
            try:
                client.connect(("127.0.0.1", server.port))
                client.sendall(b"".join(numbers.choice(words) for _ in range(numbers.randint(1, 30))))
                if numbers.random() < 0.5:
                    client.shutdown(socket.SHUT_WR)
                    client.recv(4096)
            except OSError:
                pass
    check(server.process.poll() is None and server.get("/run?stage=2")[0] == 200, "it survives 300 broken clients", "seed %d" % seed)


def crowd(server):
    """1,000 clients at once, of many states."""
    before = server.resident()
    statuses = []
    lock = threading.Lock()
    gate = threading.Barrier(1000)

    def client(number):
        try:
            gate.wait(60)
            status = server.get("/run?stage=%d&accumulation=1&micro_batch=%d" % (number % 4, [1, 2, 3, 4, 6, 8][number % 6]))[0]
        except OSError as error:
            status = type(error).__name__
        with lock:
            statuses.append(status)

    threading.stack_size(256 << 10)
    threads = [threading.Thread(target=client, args=(i,)) for i in range(1000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    tally = {status: statuses.count(status) for status in set(statuses)}
    check(len(statuses) == 1000 and set(statuses) <= {200, 503} and tally.get(200, 0) > 10, "1,000 requests at once are answered, or told to wait", tally)
    check(server.resident() < 600, "memory stays bounded", "%d MiB before, %d MiB after" % (before, server.resident()))
    check(server.get("/run?stage=2")[0] in (200, 503), "and it still answers")


def main():
    server = Server()
    try:
        for part in (answers, refusals, fuzz, crowd):
            part(server)
    finally:
        status = server.stop()
    check(status == 0, "Ctrl-C ends it cleanly", status)
    print("1..%d" % COUNT)


main()
