"""Servers to measure: nginx, PostgreSQL and the embedded target, each started for a script and stopped with it.

Every server is made in the directory it is given, listens on this machine only, runs on the processors it is
given, and is stopped by its pid when its `with` ends, however that comes about. What it can do beside serving
is stand still: `stalled` makes it do so again and again while its block runs.

Used by scripts/experiments and bench/pgbench.py. Standard library only.
"""
import contextlib, glob, os, pwd, random, shutil, signal, socket, subprocess, threading, time, urllib.request

# nginx lies in a directory that is not always on an ordinary user's path.
PATH = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"])

ACCOUNTS = 1_050_000
PAGE_BYTES = 80_000

# Level 9 makes one page some milliseconds of work. The article's file leaves all limits as they are; here the
# backlog and the number of connections are raised, so that what fails in an overload fails by being late.
NGINX = """
daemon off; pid {directory}/pid; error_log {directory}/error.log; {user}
worker_processes 1; worker_rlimit_nofile 30000;
events {{ worker_connections 20000; }}
http {{
  access_log off; keepalive_requests 1000000000; keepalive_timeout 600s;
  gzip on; gzip_comp_level 9; gzip_types text/plain;
  client_body_temp_path {directory}/body; proxy_temp_path {directory}/proxy; fastcgi_temp_path {directory}/fastcgi;
  uwsgi_temp_path {directory}/uwsgi; scgi_temp_path {directory}/scgi;
  server {{ listen 127.0.0.1:{port} backlog=4096; root {directory}/www; }}
}}
"""

# Everything is in memory and one statement is the work of one process, so that a processor is the limit.
POSTGRES = {
    "listen_addresses": "", "fsync": "off", "shared_buffers": "256MB", "max_connections": "200",
    "autovacuum": "off", "max_parallel_workers_per_gather": "0", "logging_collector": "off",
}


class Unavailable(Exception):
    """A server could not be started; the text says why."""


@contextlib.contextmanager
def pinned(cpus):
    """Processes started in this block run on these processors: a child has its parent's at its birth."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def command(*parts):
    """The command, made so that the process is interrupted should this script be killed outright."""
    setpriv = shutil.which("setpriv", path=PATH)
    return ([setpriv, "--pdeathsig", "INT", "--"] if setpriv else []) + [str(part) for part in parts]


def stop(process, how=signal.SIGTERM):
    """Stops a process of ours and waits until it is gone."""
    for signal_ in (how, signal.SIGKILL):
        if process.poll() is None:
            process.send_signal(signal_)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def until(what, ready, process, log):
    """Waits until `ready` holds; a process that ends before is reported with the end of its log."""
    for _ in range(600):
        with contextlib.suppress(OSError):
            if ready():
                return
        if process.poll() is not None:
            break
        time.sleep(0.1)
    with open(log, errors="replace") as text:
        raise Unavailable(f"{what} does not answer: {text.read()[-600:].strip()}")


@contextlib.contextmanager
def again_and_again(first_s, period_s, act, stop_waiting):
    """Calls `act` first_s after now and then every period_s, until the block ends.

    `act` is given `stop_waiting.wait`, a sleep that the end of the block cuts short.
    """
    begun, fault = time.monotonic(), []

    def loop():
        due = begun + first_s
        while not stop_waiting.wait(max(0.0, due - time.monotonic())):
            try:
                act(stop_waiting.wait)
            except OSError as error:
                return fault.append(error)
            due += period_s
    thread = threading.Thread(target=loop)
    thread.start()
    try:
        yield
    finally:
        stop_waiting.set()
        thread.join()
    if fault:
        raise Unavailable(f"the stall could not be made: {fault[0]}")


class Http:
    """What nginx and the target share: a page that is asked for compressed, without a limit of connections."""

    flags, open_flags, peak_clients = ("--header", "Accept-Encoding: gzip"), (), (1, 2, 4)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/page.txt"

    def page(self):
        request = urllib.request.Request(self.url, headers={"Accept-Encoding": "gzip"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers, answer.read()

    def settle(self):
        """Waits until what earlier runs left behind is worked off: until an answer is quick again."""
        for _ in range(60):
            begun = time.monotonic()
            with contextlib.suppress(OSError):
                self.page()
                if time.monotonic() - begun < 0.1:
                    return
            time.sleep(0.2)


class Nginx(Http):
    """nginx with one worker that compresses a text at level 9 for every request."""

    name, stall = "nginx", "its worker is stopped"

    def __init__(self, directory, cpus):
        self.port = free_port()
        www = os.path.join(directory, "www")
        os.makedirs(www)
        with open(os.path.join(www, "page.txt"), "w") as page:
            page.write(varied_text(PAGE_BYTES))
        config, log = os.path.join(directory, "nginx.conf"), os.path.join(directory, "error.log")
        open(log, "w").close()
        user = "user nobody nogroup;" if os.getuid() == 0 else ""
        with open(config, "w") as file:
            file.write(NGINX.format(directory=directory, port=self.port, user=user))
        with pinned(cpus):
            self.process = subprocess.Popen(
                command(shutil.which("nginx", path=PATH), "-c", config), stderr=subprocess.DEVNULL,
                stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            until("nginx", self.page, self.process, log)
            if self.page()[0]["Content-Encoding"] != "gzip":
                raise Unavailable("nginx does not compress: it was built without gzip")
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children") as children:
                self.worker = int(children.read().split()[0])
        except BaseException:
            stop(self.process)
            raise

    def stalled(self, first_s, hold_s, period_s):
        """Stops the worker for hold_s, first_s after now and then every period_s."""
        def pause(wait):
            os.kill(self.worker, signal.SIGSTOP)
            try:
                wait(hold_s)
            finally:
                os.kill(self.worker, signal.SIGCONT)
        return again_and_again(first_s, period_s, pause, threading.Event())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        stop(self.process)


class Postgres:
    """PostgreSQL with the article's table of accounts and its statement, asked over a Unix socket."""

    name, stall = "PostgreSQL", "its table is locked"
    flags = ("--sql", "SELECT sum(balance) FROM accounts WHERE id BETWEEN $1 AND $1 + 49999",
             "--param", "uniform:0..1000000")
    # An open loop stands in line for one connection, as in the article, so one client finds its capacity. On a
    # processor that other programs use too, four backends would get a larger share of it than one.
    open_flags, peak_clients = ("--connections", "1"), (1,)

    def __init__(self, directory, cpus):
        programs = server_programs()
        data, self.socket = os.path.join(directory, "data"), directory
        log = os.path.join(directory, "log")
        # The server refuses to run as root.
        self.user = {}
        if os.getuid() == 0:
            names = {entry.pw_name: entry for entry in pwd.getpwall()}
            user = names.get("postgres") or names["nobody"]
            self.user = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
            os.chown(directory, user.pw_uid, user.pw_gid)
        made = subprocess.run([f"{programs}/initdb", "-D", data, "-U", "bench", "-A", "trust", "-N", "-E", "UTF8",
                               "--locale", "C"], cwd="/", capture_output=True, text=True, **self.user)
        if made.returncode:
            raise Unavailable(f"initdb failed: {made.stderr.strip()}")
        settings = [part for name, value in POSTGRES.items() for part in ("-c", f"{name}={value}")]
        self.psql = [f"{programs}/psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", self.socket, "-U", "bench"]
        with pinned(cpus), open(log, "w") as output:
            self.process = subprocess.Popen(
                command(f"{programs}/postgres", "-D", data, "-k", self.socket, *settings), cwd="/",
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, **self.user)
        try:
            until("PostgreSQL", lambda: self.sql("SELECT 1", "postgres", check=False) == 0, self.process, log)
            self.sql("CREATE DATABASE bench", "postgres")
            self.sql(f"CREATE TABLE accounts AS SELECT id, 0 AS balance FROM generate_series(0, {ACCOUNTS - 1}) id")
            self.sql("ALTER TABLE accounts ADD PRIMARY KEY (id)")
            self.sql("VACUUM ANALYZE accounts")
            self.sql("CHECKPOINT")
        except BaseException:
            stop(self.process, signal.SIGINT)
            raise

    @property
    def url(self):
        return f"postgres://bench@/bench?host={self.socket}"

    def sql(self, statement, database="bench", check=True):
        done = subprocess.run([*self.psql, "-d", database, "-c", statement], stdout=subprocess.DEVNULL,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if check and done.returncode:
            raise Unavailable(f"psql: {done.stderr.strip()}")
        return done.returncode

    @contextlib.contextmanager
    def stalled(self, first_s, hold_s, period_s):
        """Locks the table for hold_s, first_s after now and then every period_s."""
        locker = subprocess.Popen(command(*self.psql, "-d", "bench"), stdin=subprocess.PIPE, text=True,
                                  stdout=subprocess.DEVNULL, start_new_session=True)

        def lock(_wait):
            locker.stdin.write(f"BEGIN; LOCK accounts; SELECT pg_sleep({hold_s}); COMMIT;\n")
            locker.stdin.flush()
        try:
            with again_and_again(first_s, period_s, lock, threading.Event()):
                yield
        finally:
            with contextlib.suppress(OSError):
                locker.stdin.close()
            stop(locker)

    def settle(self):
        """Nothing to wait for: a statement ends with its connection."""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # Fast shutdown: it does not wait for clients.
        stop(self.process, signal.SIGINT)


class Target(Http):
    """The embedded target: one worker with a known law of service times."""

    stall = "it stands still"

    def __init__(self, plimsoll, name, service, open_flags, cpus):
        self.plimsoll, self.name, self.service, self.cpus = plimsoll, name, service, cpus
        self.open_flags = open_flags
        self.port = free_port()
        self.process = None
        self.start()

    def start(self, *flags):
        self.stop()
        target = command(self.plimsoll, "target", "--listen", f"127.0.0.1:{self.port}", "--service", self.service, *flags)
        with pinned(self.cpus):
            self.process = subprocess.Popen(
                target, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        until("the target", self.page, self.process, os.devnull)

    def stop(self):
        if self.process:
            stop(self.process)

    @contextlib.contextmanager
    def stalled(self, first_s, hold_s, period_s):
        """The target stands still at the end of each of its periods, counted from its start."""
        self.start("--stall", f"every={period_s}s,for={hold_s}s")
        time.sleep(period_s - hold_s - first_s)
        try:
            yield
        finally:
            self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def server_programs():
    """The directory of PostgreSQL's server programs, the newest where there are several."""
    def version(path):
        return [int(part) for part in path.split("/")[-2].split(".") if part.isdigit()]
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"), key=version)
    found = [path for path in found if os.path.exists(f"{path}/postgres")]
    if found:
        return found[-1]
    program = shutil.which("postgres", path=PATH)
    if not program:
        raise Unavailable("PostgreSQL's server is missing")
    return os.path.dirname(os.path.realpath(program))


def varied_text(length):
    """A text of so many bytes that is work to compress: sentences of made-up words, common ones more often."""
    draw = random.Random(1)
    heads, tails = "b c d f g h l m n p r s t v st tr pl".split(), "a e i o u ai ou an er in".split()
    syllables = [head + tail for head in heads for tail in tails]
    words = ["".join(draw.choices(syllables, k=draw.choice((1, 2, 2, 3)))) for _ in range(3000)]
    weights = [1 / (rank + 3) for rank in range(len(words))]
    sentences, size = [], 0
    while size < length:
        sentence = " ".join(draw.choices(words, weights, k=draw.randint(5, 20))).capitalize() + ".\n"
        sentences.append(sentence)
        size += len(sentence)
    return "".join(sentences)[:length]
