#!/usr/bin/env python3
"""The figures of docs/benchmarks.md, measured on this machine.

  cargo build --release -p plimsoll-cli && cargo build --release -p plimsoll-engine --example one_worker
  python3 bench/figures.py [--only NAME,…] [--quick]

The generator is pinned to CPU 0, the server to CPU 1. Needs nginx; wrk, hey and oha are compared where
they are installed. Leave the machine alone meanwhile: another program on one of the two processors shows
in every figure. All load goes to 127.0.0.1 and ends by itself.
"""
import argparse, json, os, re, shutil, socket, statistics, subprocess, sys, tempfile, time, urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
NGINX = """worker_processes 1; worker_cpu_affinity 10; pid {d}/pid; error_log {d}/error.log; daemon off;
events {{ worker_connections 20000; }}
http {{ access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
 client_body_temp_path {d}/b; proxy_temp_path {d}/p; fastcgi_temp_path {d}/f; uwsgi_temp_path {d}/u; scgi_temp_path {d}/s;
 server {{ listen 127.0.0.1:{port} backlog=8192; location / {{ return 200 "hello world\\n"; }} }} }}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Bench:
    def __init__(self, args):
        release = os.path.join(args.target_dir, "release")
        self.plimsoll = os.path.join(release, "plimsoll")
        self.one_worker = os.path.join(release, "examples", "one_worker")
        self.limit = args.limit
        self.quick = args.quick
        self.directory = tempfile.TemporaryDirectory()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}/"
        conf = os.path.join(self.directory.name, "nginx.conf")
        with open(conf, "w") as f:
            f.write(NGINX.format(d=self.directory.name, port=self.port))
        self.nginx = subprocess.Popen(["nginx", "-c", conf], stderr=subprocess.DEVNULL)
        time.sleep(0.5)

    def close(self):
        self.nginx.terminate()
        self.nginx.wait()

    def pinned(self, command, cpu="0"):
        done = subprocess.run(["taskset", "-c", cpu, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{command} ended with {done.returncode}: {done.stderr}")
        return done.stdout

    def run(self, *flags, url=None, cpu="0"):
        return json.loads(self.pinned([self.plimsoll, "run", url or self.url, "--workers", "1", "--json", "--no-progress", *flags], cpu))

    def worker(self, *args, port=None):
        return json.loads(self.pinned([self.one_worker, f"127.0.0.1:{port or self.port}", *map(str, args)]))

    def target(self, *flags):
        return Target(self.plimsoll, flags)


class Target:
    def __init__(self, plimsoll, flags):
        self.port = free_port()
        command = ["taskset", "-c", "1", plimsoll, "target", "--listen", f"127.0.0.1:{self.port}", *flags]
        self.started = time.monotonic()
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{self.port}/"
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("the target does not listen")

    def truth(self):
        return json.load(urllib.request.urlopen(self.url + "truth"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def us(ns):
    return round(ns / 1e3, 2)


def closed(b):
    """64 clients against nginx, in turn with other programs; ratios round by round."""
    seconds, clients = "4", "64"

    def measure(command, answers):
        with tempfile.NamedTemporaryFile("r") as usage:
            started = time.monotonic()
            out = subprocess.run(["taskset", "-c", "0", "/usr/bin/time", "-q", "-f", "%U %S %M", "-o", usage.name, *command],
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
            elapsed = time.monotonic() - started
            user, system, rss = map(float, open(usage.name).read().split())
        n = answers(out)
        return {"rate": n / elapsed, "cpu_us": (user + system) * 1e6 / n, "rss_mb": rss / 1024}

    def number(pattern):
        return lambda text: int(re.search(pattern, text).group(1))
    programs = {
        "plimsoll": ([b.plimsoll, "run", b.url, "--clients", clients, "-z", seconds + "s", "--workers", "1", "--json", "--no-progress"],
                     lambda t: json.loads(t)["counts"]["ok"]),
        "wrk": (["wrk", "-t1", "-c" + clients, "-d" + seconds + "s", b.url], number(r"(\d+) requests in")),
        "oha": (["oha", "--no-tui", "-c", clients, "-z", seconds + "s", b.url], number(r"\[200\]\s+(\d+) responses")),
    }
    if b.limit:
        programs["limit"] = ([b.limit, "closed", str(b.port), clients, seconds], lambda t: json.loads(t)["requests"])
    programs = {name: p for name, p in programs.items() if shutil.which(p[0][0])}
    rounds = [{name: measure(*p) for name, p in programs.items()} for _ in range(2 if b.quick else 6)][1:]
    result = {name: {k: round(statistics.median(r[name][k] for r in rounds), 2) for k in ("rate", "cpu_us", "rss_mb")} for name in programs}
    for name in programs:
        if name != "plimsoll":
            result["plimsoll to " + name] = {k: round(statistics.median(r["plimsoll"][k] / r[name][k] for r in rounds), 3) for k in ("rate", "cpu_us")}
    return result


def memory(b):
    """Resident memory after 1 and 10 million requests, and after 5 and 60 s of an impossible rate."""
    rss = lambda r: r["generator"]["max_rss_bytes"] / 2**20
    counts = [b.run("--clients", "64", "-n", str(n)) for n in ((100_000, 1_000_000) if b.quick else (1_000_000, 10_000_000))]
    rates = [b.run("--rate", "1000000", "--connections", "64", "-z", z, "--drain", "1s") for z in (("2s", "5s") if b.quick else ("5s", "60s"))]
    return {"few_requests_mb": round(rss(counts[0]), 2), "many_requests_mb": round(rss(counts[1]), 2),
            "impossible_short_mb": round(rss(rates[0]), 2), "impossible_long_mb": round(rss(rates[1]), 2)}


def lag(b):
    """sent − due at 10,000/s Poisson, every request asserted not to leave before it is due."""
    with b.target("--service", "fixed:0s", "--workers", "inf") as t:
        return {wait: {k: v for k, v in b.worker(11, "open", "10000/s", "poisson", wait, 64, port=t.port).items() if k.startswith("lag")}
                for wait in ("spin", "auto", "sleep")}


def read_lag(b):
    """Closed, 64 connections, nginx: how much of a user-space clock's latency would be our own; the stamps' cost."""
    runs = [(b.worker(5, "closed", 64, "kernel"), b.worker(5, "closed", 64, "user")) for _ in range(1 if b.quick else 5)]
    kernel, _ = runs[-1]
    return {"response_p50_us": kernel["response_p50_us"], "read_lag_p50_us": kernel["read_lag_p50_us"],
            "read_lag_p99_us": kernel["read_lag_p99_us"],
            "stamps_cpu_ratio": round(statistics.median(k["cpu_us"] / u["cpu_us"] for k, u in runs), 3)}


def dispersion(b):
    """Index of dispersion of counts: what the server saw, and our own send stamps. Poisson 1, even 0."""
    seconds = 6 if b.quick else 31
    result = {}
    with b.target("--service", "fixed:0s", "--workers", "inf") as t:
        for law in ("poisson", "even"):
            for rate in (1000, 10000, 30000):
                t.truth()
                own = b.worker(seconds, "open", f"{rate}/s", law, "spin", 256, port=t.port)
                seen = t.truth()
                result[f"{law} {rate}/s"] = {"server": seen.get("dispersion"), "own": {k[11:]: v for k, v in own.items() if k.startswith("dispersion")}}
    return result


def stall(b):
    """1,000/s even against a server that stands still 400 ms in every 5 s; arithmetic truth p95 151 ms, p99 351 ms."""
    with b.target("--service", "fixed:1ms", "--workers", "inf", "--stall", "every=5s,for=400ms") as t:
        # The first stall opens 400 connections; what the server takes to accept them is not asked here.
        cold = b.run("--rate", "1000/s", "--arrivals", "even", "-z", "20s", url=t.url)["response_ns"]
        r = b.run("--rate", "1000/s", "--arrivals", "even", "--warmup", "5s", "-z", "20s", url=t.url)["response_ns"]
    with b.target("--service", "fixed:1ms", "--workers", "inf") as t:
        t.truth()
        plain = b.run("--rate", "1000/s", "--arrivals", "even", "-z", "10s", url=t.url)["response_ns"]
        sojourn = t.truth()["sojourn_ns"]
    return {"cold_p95_ms": round(cold["p95"] / 1e6, 2), "cold_p99_ms": round(cold["p99"] / 1e6, 2), "p95_ms": round(r["p95"] / 1e6, 2), "p99_ms": round(r["p99"] / 1e6, 2),
            "p50_us": us(plain["p50"]), "server_p50_us": us(sojourn["p50"]), "above_us": us(plain["p50"] - sojourn["p50"])}


def impossible(b):
    """--rate 1000000 on one worker beside a closed loop of 64."""
    rounds = []
    for _ in range(1 if b.quick else 3):
        best = b.run("--clients", "64", "-z", "4s")
        few = b.run("--rate", "1000000", "--connections", "64", "-z", "4s", "--drain", "1s")
        many = b.run("--rate", "1000000", "-z", "4s", "--drain", "1s")
        rate = lambda r: r["rates"]["achieved_per_s"]
        rounds.append({"few": rate(few) / rate(best), "default": rate(many) / rate(best),
                       "failed": few["counts"]["failed"] + many["counts"]["failed"] + few["counts"]["timed_out"] + many["counts"]["timed_out"],
                       "default_rss_mb": many["generator"]["max_rss_bytes"] / 2**20, "default_connections": many["connections"]["peak"]})
    return {k: round(statistics.median(r[k] for r in rounds), 3) for k in rounds[0]}


def connections(b):
    """Resident memory a connection, 10,000 open."""
    few, many = b.run("--clients", "1", "-z", "2s"), b.run("--clients", "9900", "-z", "3s")
    grown = many["generator"]["max_rss_bytes"] - few["generator"]["max_rss_bytes"]
    return {"established": many["connections"]["established"], "kb_a_connection": round(grown / 1024 / many["connections"]["established"], 2)}


def start(b):
    """From the start of the process to its first request at the server."""
    times = []
    for model in (["--rate", "1000"], ["--clients", "1"]) * (2 if b.quick else 10):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            began = time.monotonic()
            process = subprocess.Popen([b.plimsoll, "run", f"http://127.0.0.1:{s.getsockname()[1]}/", *model, "-n", "1", "--arrivals" if model[0] == "--rate" else "--seed", "even" if model[0] == "--rate" else "1"],
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            connection, _ = s.accept()
            connection.recv(4096)
            times.append(time.monotonic() - began)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            process.wait()
            connection.close()
    return {"median_ms": round(statistics.median(times) * 1e3, 2), "most_ms": round(max(times) * 1e3, 2)}


ALL = [closed, memory, lag, read_lag, dispersion, stall, impossible, connections, start]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--target-dir", default=os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")))
    p.add_argument("--limit", help="a program that marks the machine's limit: limit closed PORT CONNECTIONS SECONDS")
    p.add_argument("--only", help="comma-separated: " + ", ".join(f.__name__ for f in ALL))
    p.add_argument("--quick", action="store_true", help="short runs, to see that it works")
    args = p.parse_args()
    wanted = args.only.split(",") if args.only else [f.__name__ for f in ALL]
    b = Bench(args)
    try:
        for figure in ALL:
            if figure.__name__ in wanted:
                began = time.monotonic()
                result = figure(b)
                print(json.dumps({"figure": figure.__name__, "what": figure.__doc__.strip(), "took_s": round(time.monotonic() - began, 1), **result}), flush=True)
    finally:
        b.close()


main()
