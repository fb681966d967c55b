#!/usr/bin/env python3
"""plimsoll beside pgbench: the same PostgreSQL, the same socket, one generator thread each.

  cargo build --release -p plimsoll-cli
  python3 bench/pgbench.py [--rounds 5] [--seconds 5] [--plimsoll PATH] [--only select,sum]

The server is pinned to CPU 0 and the generator to CPU 1, where there are two. Rounds are interleaved: what
disturbs the machine disturbs both. Everything that is started is stopped, and all load goes through a socket
in the file system. Leave the machine alone meanwhile.
"""
import argparse, glob, json, os, pwd, resource, shutil, signal, statistics, subprocess, sys, tempfile, time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ACCOUNTS = 1_050_000
STATEMENTS = {
    # name: the statement, the range of its one parameter
    "select": ("SELECT balance FROM accounts WHERE id = {}", 1_000_000),
    "sum": ("SELECT sum(balance) FROM accounts WHERE id BETWEEN {0} AND {0} + 49999", 1_000_000),
}


def program(name):
    places = sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)
    found = shutil.which(name, path=os.pathsep.join(places + [os.environ.get("PATH", "")]))
    return found or sys.exit(f"{name} is missing; install it (Debian, Ubuntu: apt-get install postgresql)")


def pin(cpu):
    cpus = sorted(os.sched_getaffinity(0))
    return lambda: os.sched_setaffinity(0, {cpus[min(cpu, len(cpus) - 1)]})


class Server:
    """PostgreSQL with a data directory of its own, pinned to the first CPU."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="plimsoll-pgbench-")
        self.user = None
        if os.getuid() == 0:
            # The server refuses to run as root.
            self.user = next(u for u in ("postgres", "nobody") if any(p.pw_name == u for p in pwd.getpwall()))
            shutil.chown(self.directory, self.user)
        data = os.path.join(self.directory, "data")
        self.as_owner([program("initdb"), "-D", data, "-U", "bench", "--auth=trust", "--no-sync", "--locale=C"]).wait()
        self.child = self.as_owner([
            program("postgres"), "-D", data, "-k", self.directory, "-c", "listen_addresses=", "-c", "fsync=off",
            "-c", "max_connections=64", "-c", "autovacuum=off", "-c", "shared_buffers=256MB",
        ])
        while subprocess.run(self.psql("SELECT 1"), capture_output=True).returncode:
            time.sleep(0.05)
        for sql in (
            f"CREATE TABLE accounts AS SELECT id, 0 AS balance FROM generate_series(0, {ACCOUNTS - 1}) id",
            "ALTER TABLE accounts ADD PRIMARY KEY (id)",
            "VACUUM ANALYZE accounts",
        ):
            subprocess.run(self.psql(sql), check=True, capture_output=True)

    def as_owner(self, command):
        with open(os.path.join(tempfile.gettempdir(), os.devnull), "w") as nowhere:
            return subprocess.Popen(
                command, stdout=nowhere, stderr=nowhere, preexec_fn=pin(0), cwd="/",
                **({"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}),
            )

    def psql(self, sql):
        return [program("psql"), "-qXAt", "-h", self.directory, "-U", "bench", "-c", sql, "postgres"]

    def stop(self):
        self.child.send_signal(signal.SIGQUIT)
        self.child.wait()
        shutil.rmtree(self.directory, ignore_errors=True)


def timed(command):
    """Runs it on the second CPU; its output, and the CPU time it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=pin(1), cwd="/tmp")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


class Bench:
    def __init__(self, args, server):
        self.args, self.server = args, server
        self.script = os.path.join(server.directory, "script.sql")

    def plimsoll(self, statement, load):
        sql, most = STATEMENTS[statement]
        out, cpu = timed([
            self.args.plimsoll, "run", f"postgres:///postgres?host={self.server.directory}&user=bench",
            "--sql", sql.format("$1"), "--param", f"uniform:0..{most}", "--workers", "1", "--json", "--no-progress",
            "-z", f"{self.args.seconds}s", *load,
        ])
        run = json.loads(out)
        assert run["success_ratio"] == 1.0, run["errors"]
        return run, cpu / run["counts"]["ok"]

    def pgbench(self, statement, *more):
        sql, most = STATEMENTS[statement]
        with open(self.script, "w") as f:
            f.write(f"\\set id random(0, {most - 1})\n{sql.format(':id')};\n")
        out, cpu = timed([
            program("pgbench"), "-h", self.server.directory, "-U", "bench", "-M", "prepared", "-n", "-j", "1",
            "-T", str(self.args.seconds), "-f", self.script, *more, "postgres",
        ])
        value = lambda label: float(next(l for l in out.splitlines() if l.startswith(label)).split("=" if "=" in label else None)[-1].split()[0])
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
            prefix = os.path.join(self.server.directory, "log")
            os.chmod(self.server.directory, 0o777)
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
    server = Server()
    try:
        bench = Bench(args, server)
        print("                       plimsoll     pgbench  ratio     plimsoll    pgbench  ratio")
        print("closed loop                  transactions a second        CPU a transaction")
        peaks = {}
        for statement in args.only.split(","):
            peaks[statement] = max(bench.closed(statement, clients) for clients in (1, 8))
        print("\nopen loop at half of that, from when each transaction was due")
        for statement, peak in peaks.items():
            bench.open(statement, round(peak / 2))
    finally:
        server.stop()


if __name__ == "__main__":
    main()
