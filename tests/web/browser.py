# browser.py: drives a headless Chromium through its debugging pipe, with the standard library alone.
# SPDX-License-Identifier: MIT
import base64
import json
import os
import shutil
import subprocess
import tempfile


def find():
    """The browser's program, or None."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if shutil.which(name):
            return shutil.which(name)
    return None


class Browser:
    """One browser with one page. Messages are JSON between zero bytes, on descriptors 3 and 4."""

    def __init__(self, width=1400, height=900):
        self.folder = tempfile.mkdtemp(prefix="zerosim-browser-")
        to_read, self.to = os.pipe()
        self.of, of_write = os.pipe()
        arguments = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--remote-debugging-pipe",
                     "--disable-dev-shm-usage", "--hide-scrollbars", "--user-data-dir=" + self.folder,
                     "--window-size=%d,%d" % (width, height), "about:blank"]

        def place():
            # above 3 and 4 first, so that neither is closed by the other
            a, b = os.dup(to_read), os.dup(of_write)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self.process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        close_fds=False, preexec_fn=place)
        os.close(to_read)
        os.close(of_write)
        self.buffer = b""
        self.number = 0
        self.problems = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            more = os.read(self.of, 1 << 20)
            if not more:
                raise RuntimeError("the browser ended")
            self.buffer += more
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        method, details = message.get("method"), message.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"])[:600])
        elif method == "Log.entryAdded" and details["entry"]["level"] == "error":
            self.problems.append(details["entry"]["text"] + " " + details["entry"].get("url", ""))
        elif method == "Runtime.consoleAPICalled" and details["type"] == "error":
            self.problems.append(json.dumps(details["args"])[:600])
        return message

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session is not None:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise RuntimeError(method + ": " + answer["error"]["message"])
                return answer["result"]

    def open(self, url):
        self.call("Page.navigate", url=url)
        return self.wait("document.body && document.body.dataset && (document.body.dataset.ready || document.body.dataset.failure)")

    def evaluate(self, expression):
        """The value of EXPRESSION (awaited) in the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:600])
        return answer["result"].get("value")

    def wait(self, expression, seconds=20):
        """Until EXPRESSION is true; its value."""
        return self.evaluate("new Promise((done, lost) => { const end = performance.now() + %d; const look = () => {"
                             " let value = false; try { value = %s; } catch (e) {} "
                             " if (value) done(value); else if (performance.now() > end) done(null); else setTimeout(look, 20); };"
                             " look(); })" % (seconds * 1000, expression))

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click(self, x, y):
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def key(self, key):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def screenshot(self, path, whole=True):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=whole)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def close(self):
        try:
            self.session = None
            self.call("Browser.close")
        except (RuntimeError, OSError):
            pass
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
        shutil.rmtree(self.folder, ignore_errors=True)
