#!/usr/bin/env python3
"""plimsoll beside pgbench: the same PostgreSQL, the same socket, one generator thread each.

  cargo build --release -p plimsoll-cli
  python3 bench/pgbench.py [--rounds 5] [--seconds 5] [--plimsoll PATH] [--only select,sum]

The server is pinned to CPU 0 and the generator to CPU 1, where there are two. Rounds are interleaved: what
disturbs the machine disturbs both. Everything that is started is stopped, and all load goes through a socket
in the file system. Leave the machine alone meanwhile.
"""
import argparse, glob, json, os, resource, signal, statistics, subprocess, sys, tempfile

import servers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
IDS = 1_000_000
STATEMENTS = {
    "select": "SELECT balance FROM accounts WHERE id = {}",
    "sum": "SELECT sum(balance) FROM accounts WHERE id BETWEEN {0} AND {0} + 49999",
}


def processors():
    """The server's and the generator's."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[:1], cpus[1:2] or cpus


def timed(command):
    """Runs it on the generator's processor; its output, and the CPU time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with servers.pinned(processors()[1]):
        done = subprocess.run(command, capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Bench:
    def __init__(self, args, server, directory):
        self.args, self.server = args, server
        self.directory = tempfile.mkdtemp(dir=directory)
        self.script = os.path.join(self.directory, "script.sql")
        self.program = os.path.join(servers.server_programs(), "pgbench")

    def plimsoll(self, statement, load):
        out, cpu = timed([
            self.args.plimsoll, "run", self.server.url, "--sql", STATEMENTS[statement].format("$1"),
            "--param", f"uniform:0..{IDS}", "--workers", "1", "--json", "--no-progress",
            "-z", f"{self.args.seconds}s", *load,
        ])
        run = json.loads(out)
        assert run["success_ratio"] == 1.0, run["errors"]
        return run, cpu / run["counts"]["ok"]

    def pgbench(self, statement, *more):
        with open(self.script, "w") as f:
            f.write(f"\\set id random(0, {IDS - 1})\n{STATEMENTS[statement].format(':id')};\n")
        out, cpu = timed([
            self.program, "-h", self.server.socket, "-U", "bench", "-M", "prepared", "-n", "-j", "1",
            "-T", str(self.args.seconds), "-f", self.script, *more, "bench",
        ])
        tps = float(next(l for l in out.splitlines() if l.startswith("tps")).split()[2])
        done = int(next(l for l in out.splitlines() if "actually processed" in l).split(":")[1].split("/")[0])
        return tps, cpu / done

    def closed(self, statement, clients):
        rows = []
        for _ in range(self.args.rounds):
            run, cpu = self.plimsoll(statement, ["--clients", str(clients)])
            tps, their_cpu = self.pgbench(statement, "-c", str(clients))
            rows.append((run["rates"]["achieved_per_s"], tps, cpu, their_cpu))
        median = lambda f: statistics.median(map(f, rows))
        print(
            f"{statement:6}  {clients:2} clients  "
            f"{median(lambda r: r[0]):9,.0f}/s {median(lambda r: r[1]):9,.0f}/s {median(lambda r: r[0] / r[1]):6.3f}   "
            f"{median(lambda r: r[2]) * 1e6:7.2f} µs {median(lambda r: r[3]) * 1e6:7.2f} µs {median(lambda r: r[2] / r[3]):6.3f}",
            flush=True,
        )
        return median(lambda r: r[1])

    def open(self, statement, rate, clients=8):
        ours, theirs = [], []
        for _ in range(self.args.rounds):
            run, _ = self.plimsoll(statement, ["--rate", str(rate), "--connections", str(clients)])
            ours.append([run["response_ns"][p] / 1e3 for p in ("p50", "p99")] + [run["schedule_lag_ns"]["p99"] / 1e3])
            prefix = os.path.join(self.directory, "log")
            self.pgbench(statement, "-c", str(clients), "-R", str(rate), "-l", f"--log-prefix={prefix}")
            logs = glob.glob(prefix + "*")
            # client, transaction, time since it was due (µs), script, seconds, µs, schedule lag (µs)
            lines = [line.split() for log in logs for line in open(log)]
            for log in logs:
                os.remove(log)
            times, lags = sorted(int(l[2]) for l in lines), sorted(int(l[6]) for l in lines)
            at = lambda values, q: values[max(0, -int(-q * len(values) // 1) - 1)]
            theirs.append([at(times, 0.5), at(times, 0.99), at(lags, 0.99)])
        medians = lambda rows: [statistics.median(column) for column in zip(*rows)]
        for name, (p50, p99, lag) in (("plimsoll", medians(ours)), ("pgbench", medians(theirs))):
            print(f"{statement:6}  {rate}/s  {name:8}  p50 {p50:9,.0f} µs   p99 {p99:9,.0f} µs   lag p99 {lag:9,.1f} µs", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--plimsoll", default=os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "plimsoll"))
    parser.add_argument("--only", default="select,sum")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with tempfile.TemporaryDirectory(prefix="plimsoll-") as directory:
        # The server may run as another user, who must be able to enter.
        os.chmod(directory, 0o711)
        place = os.path.join(directory, "postgres")
        os.mkdir(place, 0o755)
        with servers.Postgres(place, processors()[0]) as server:
            bench = Bench(args, server, directory)
            print("                         plimsoll     pgbench  ratio    plimsoll     pgbench  ratio")
            print("closed loop                 transactions a second           CPU a transaction")
            peaks = {}
            for statement in args.only.split(","):
                peaks[statement] = max(bench.closed(statement, clients) for clients in (1, 8))
            print("\nopen loop at half of that, from when each transaction was due")
            for statement, peak in peaks.items():
                bench.open(statement, round(peak / 2))


if __name__ == "__main__":
    main()
