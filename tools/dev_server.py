"""Runs `heraldd dev` in a given directory, for the benchmarks in tools/."""
import re
import subprocess
import sys
import time


class DevServer:
    def __init__(self, program, folder, flags=()):
        folder.mkdir(parents=True, exist_ok=True)
        self.dir = folder / "heraldd"
        self.log_file = folder / "heraldd.log"
        self.kubeconfig = self.dir / "kubeconfig"
        self.ca = self.dir / "certs/ca.crt"
        self.port_file = folder / "port"
        self.command = [program, "dev", "--dir", self.dir, "--port", "0", "--port-file", self.port_file, *flags]
        self.start()

    def start(self):
        # heraldd writes the file when it is ready.
        self.port_file.unlink(missing_ok=True)
        with self.log_file.open("ab") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        while not self.port_file.exists() and self.process.poll() is None:
            time.sleep(0.01)
        if not self.port_file.exists():
            sys.exit("heraldd did not start:\n" + self.log_file.read_text())
        text = self.kubeconfig.read_text()
        self.url = re.search(r"server: (\S+)", text)[1]
        self.token = re.search(r"token: (\S+)", text)[1]

    def stop(self):
        self.process.terminate()
        self.process.wait()
