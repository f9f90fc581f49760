# server.py: a `zerosim serve` of one's own, on a free port.  SPDX-License-Identifier: MIT
import http.client
import os
import re
import signal
import subprocess

SCENARIO = os.path.join(os.environ["top_srcdir"], "scenarios", "nvswitch.yaml")


class Server:
    def __init__(self):
        self.process = subprocess.Popen([os.environ["ZEROSIM"], "serve", SCENARIO, "--port", "0"], stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        self.port = int(re.search(r"127\.0\.0\.1:(\d+)", line).group(1))

    def get(self, path, method="GET", headers=None, body=None):
        """Status and body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body=body, headers=headers or {})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    def resident(self):
        """The most memory it ever had, in MiB."""
        with open("/proc/%d/status" % self.process.pid) as file:
            return int(re.search(r"VmHWM:\s+(\d+)", file.read()).group(1)) >> 10

    def stop(self):
        """Ctrl-C; the exit status."""
        self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return None
