"""The dashboard of a large cluster in headless Chromium: weight, time until it can be used, what events cost.

python benchmarks/dashboard.py [--nodes 125] [--gpus 8] [--jobs 5000] [--events 20]
python benchmarks/dashboard.py --screens out/screens     pictures of each page: three widths, dark and light

The controller, its store and its policy are real; the machines are made up (`fleet.py`).
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from fleet import Machines
from live_common import ROTA, Cluster, cluster, load, until

TENANTS = ("vision/ann", "vision/bob", "speech/cho", "nlp/dee", "nlp/eli", "robots/fay", "ads/gus")
SIZES = (1, 1, 2, 1, 4, 8, 2, 1, 16, 4)
NAMES = ("resnet-50", "bert-large", "whisper", "gpt-small", "ppo-walker", "dlrm", "unet")
WIDTHS = (390, 820, 1440)
LARGE = {"cluster": "/", "queue": "/queue?state=all", "api": "/api"}
"""Pages that a large cluster shows best; by the names of their pictures."""
SMALL = {
    "jobs": "/jobs", "job": "/jobs/3", "policy": "/policy", "tenants": "/tenants?days=1",
    "usage": "/usage?by=user&price=2.5", "history": "/history",
}  # fmt: skip
"""Those that real jobs fill."""
TALKING = Path(__file__).parents[1] / "tests" / "server" / "talking_job.py"
WATCH = """
window.watched = { tasks: [], heard: 0 };
new PerformanceObserver((list) => { for (const one of list.getEntries()) watched.tasks.push(one.duration); })
  .observe({ type: "longtask", buffered: true });
const Plain = window.EventSource;
window.EventSource = class extends Plain {
  constructor(...given) { super(...given); this.addEventListener("changed", () => { watched.heard += 1; }); }
};
"""
PATIENCE_S = 300.0


def fill(rota: Cluster, jobs: int) -> None:
    """Jobs of several tenants and sizes, more than fit; some are held, one node takes none."""
    rest, kind = jobs, 0
    while rest > 0:
        many = min(rest, max(1, jobs // 40))
        spec = {
            "command": ["work", "99999"], "workdir": "/", "array": f"1-{many}",
            "gpus": SIZES[kind % len(SIZES)],
            "tenant": TENANTS[kind % len(TENANTS)], "name": NAMES[kind % len(NAMES)],
            "time_s": 3600.0 * (1 + kind % 9),
        }  # fmt: skip
        rota.client.call("POST", "/v1/jobs", {"spec": spec})
        rest, kind = rest - many, kind + 1
    rota.submit(["work", "99999"], gpus=4, hold=True, name="after-review", tenant=TENANTS[0])


@contextmanager
def scene(nodes: int, gpus: int, jobs: int, policy: str) -> Iterator[Cluster]:
    """A controller at work, its machines and jobs there."""
    with ExitStack() as stack:
        there: list[Machines] = []
        stack.callback(lambda: [machines.close() for machines in there])
        rota = stack.enter_context(cluster(0, policy))
        there.append(Machines(rota, nodes, gpus))
        until(lambda: rota.status()["gpus"] == nodes * gpus, PATIENCE_S, 0.1)
        rota.client.call("POST", "/v1/nodes/n0001/drain", {"reason": "new power supply"})
        fill(rota, jobs)
        until(lambda: rota.status()["gpus_used"] > 0.9 * (nodes - 1) * gpus, PATIENCE_S, 0.2)
        yield rota


@contextmanager
def browser() -> Iterator[Any]:
    """Headless Chromium."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome")
    path = os.environ.get("ROTA_CHROMIUM") or next((p for n in names if (p := shutil.which(n))), None)
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield opened
        opened.close()


def signed_in(chromium: Any, rota: Cluster, **options: Any) -> tuple[Any, str]:
    """A browser's context with the admin's session, and the address."""
    url = json.loads((rota.home / "controller.json").read_text())["url"]
    context = chromium.new_context(**options)
    page = context.new_page()
    page.goto(url)
    page.fill("#token", (rota.home / "tokens" / "admin").read_text().strip())
    page.press("#token", "Enter")
    page.wait_for_selector("nav")
    page.close()
    return context, url


def weighed(page: Any) -> dict[str, float]:
    """Bytes that come over the network from now on."""
    weight = {"bytes": 0.0, "answers": 0.0}
    talk = page.context.new_cdp_session(page)
    talk.send("Network.enable")
    talk.on("Network.loadingFinished", lambda said: weight.update(
        bytes=weight["bytes"] + said["encodedDataLength"], answers=weight["answers"] + 1
    ))  # fmt: skip
    return weight


def measure(chromium: Any, rota: Cluster, path: str, ready: str, events_per_s: float) -> None:
    """One page: how heavy, how soon, and how it bears events."""
    context, url = signed_in(chromium, rota, viewport={"width": 1440, "height": 900})
    soon: list[float] = []
    for _ in range(3):
        page = context.new_page()
        page.add_init_script(WATCH)
        weight = weighed(page)
        began = time.monotonic()
        page.goto(url + path, wait_until="commit")
        page.wait_for_selector(ready, state="attached")
        soon.append(time.monotonic() - began)
        page.wait_for_selector("body[data-hears]")
        if len(soon) < 3:
            page.close()
    loaded, blocked = dict(weight), page.evaluate("watched.tasks.slice()")
    print(f"{path}")
    print(f"  weight                 {loaded['bytes'] / 1024:.0f} KiB in {loaded['answers']:.0f} answers")
    print(f"  usable after           {statistics.median(soon) * 1000:.0f} ms (median of 3)")
    print(f"  elements               {page.evaluate('document.querySelectorAll(`*`).length')}")
    print(f"  blocked while loading  {sum(blocked):.0f} ms, at most {max(blocked, default=0):.0f} at a time")
    page.evaluate("watched.tasks.length = 0, watched.heard = 0")
    before, span_s = dict(weight), 15.0
    sent = churn(rota, events_per_s, span_s, page)
    tasks, heard = page.evaluate("[watched.tasks.slice(), watched.heard]")
    took = weight["bytes"] - before["bytes"]
    rate, part = heard / span_s, sum(tasks) / span_s / 10
    acts = sent / span_s
    print(f"  acts, messages         {acts:.1f} and {rate:.1f} a second, {took / span_s / 1024:.0f} KiB/s")
    print(f"  blocked by them        {part:.1f} % of the time, at most {max(tasks, default=0):.0f} ms")
    context.close()


def churn(rota: Cluster, per_s: float, span_s: float, page: Any) -> int:
    """Submissions and cancellations for a while; how many."""
    over, sent = threading.Event(), [0]

    def go() -> None:
        from rota.client import Client

        client = Client(rota.client.address)
        while not over.wait(2.0 / per_s):
            said = client.call("POST", "/v1/jobs", {"spec": {"command": ["work", "9"], "workdir": "/"}})
            id = said["jobs"][0]["id"]
            client.call("POST", f"/v1/jobs/{id}/cancel", {})
            sent[0] += 2

    thread = threading.Thread(target=go)
    thread.start()
    page.wait_for_timeout(span_s * 1000)
    over.set()
    thread.join()
    return sent[0]


@contextmanager
def small_scene() -> Iterator[Cluster]:
    """Four slots and real jobs: some ended well, one failed, one trains, one had to give way, some wait."""
    with cluster(4, "srtf", "--min-run", "1s") as rota:
        (rota.home / "tenants.yaml").write_text("tenants: {vision: {quota: 2}, nlp: {quota: 1, weight: 2}}\n")
        apply = [*ROTA, "tenants", "apply", str(rota.home / "tenants.yaml"), "--yes"]
        subprocess.run(apply, env=rota.environment, check=True, stdout=subprocess.DEVNULL)
        ends = [rota.submit(["true"], name=name, tenant=TENANTS[k]) for k, name in enumerate(NAMES[:2])]
        talks = [sys.executable, str(TALKING), "600"]
        trains = rota.submit(talks, gpus=2, name="resnet-50", tenant=TENANTS[0], time_s=1200, workdir="/tmp")
        ends.append(rota.submit([sys.executable, "-c", "exit(3)"], name="typo", tenant=TENANTS[2]))
        for id in ends:
            rota.wait(id)
        rota.submit(["sleep", "900"], gpus=2, name="long", tenant=TENANTS[3], time_s=90_000)
        time.sleep(3)
        rota.submit(["sleep", "600"], gpus=2, name="short", tenant=TENANTS[5], time_s=900)
        rota.submit(["sleep", "600"], gpus=1, name="next", tenant=TENANTS[5], time_s=1800)
        rota.submit(["sleep", "600"], gpus=3, name="wide", tenant=TENANTS[0], time_s=3600)
        until(lambda: rota.client.call("GET", f"/v1/jobs/{trains}")["job"]["state"] == "RUNNING", 60, 0.2)
        yield rota


def pictures(chromium: Any, rota: Cluster, folder: Path, paths: Mapping[str, str]) -> None:
    """These pages, and what another policy would do if the page Policy is among them."""
    folder.mkdir(parents=True, exist_ok=True)
    for scheme in ("light", "dark"):
        for width in WIDTHS:
            size = {"width": width, "height": 900}
            context, url = signed_in(chromium, rota, viewport=size, color_scheme=scheme)
            page = context.new_page()
            for name, path in paths.items():
                answer = page.goto(url + path)
                assert answer.status == 200, (path, answer.status)
                page.wait_for_timeout(1500)
                if name == "policy":
                    page.fill("#candidate", "fifo")
                    page.press("#candidate", "Enter")
                    page.wait_for_selector("#ahead svg >> nth=1")
                page.screenshot(path=folder / f"{name}-{width}-{scheme}.png", full_page=paths is SMALL)
            context.close()


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--nodes", type=int, default=125)
    parser.add_argument("--gpus", type=int, default=8)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--policy", default="fifo")
    parser.add_argument("--events", type=float, default=20.0, help="acts a second")
    parser.add_argument("--screens", type=Path, help="only make pictures, in this folder")
    given = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if given.screens:
        with browser() as chromium:
            with scene(24, 8, 90, given.policy) as rota:
                time.sleep(12)  # an estimate of the starts, some ages that are not 0
                pictures(chromium, rota, given.screens, LARGE)
            with small_scene() as rota:
                time.sleep(20)  # curves of some length
                pictures(chromium, rota, given.screens, SMALL)
        print(f"pictures are in {given.screens}")
        return
    print(f"{given.nodes} nodes of {given.gpus} GPUs, {given.jobs} jobs, {given.policy}; {load()}")
    with scene(given.nodes, given.gpus, given.jobs, given.policy) as rota, browser() as chromium:
        status = rota.status()
        print(f"{status['running']} jobs run, {status['pending']} wait")
        measure(chromium, rota, "/", f"#grid[data-drawn='{given.nodes * given.gpus}']", given.events)
        measure(chromium, rota, "/queue?state=all", "tr[data-row]", given.events)


if __name__ == "__main__":
    main()
