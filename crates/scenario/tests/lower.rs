//! From command-line values to plans: what each value means, and what is said of faulty ones.

use std::net::IpAddr;

use plimsoll_core::Plan;
use plimsoll_core::arrival::ArrivalLaw;
use plimsoll_core::plan::{
    Endpoint, Family, HttpRequest, LatePolicy, Load, Request, Retry, Verification, WaitStrategy,
};
use plimsoll_core::time::Span;
use plimsoll_core::value::Key;
use plimsoll_scenario::{Environment, Lowered, Machine, RunArgs, lower};

const MACHINE: Machine = Machine { cpus: 8, descriptor_limit: 1_064 };

/// A run that lowers: every test changes what it is about.
fn args() -> RunArgs {
    RunArgs { target: "http://127.0.0.1/".to_owned(), rate: some("100"), ..RunArgs::default() }
}

fn closed(clients: &str) -> RunArgs {
    RunArgs { rate: None, clients: some(clients), ..args() }
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

fn lowered(args: &RunArgs) -> Lowered {
    lower(args, &MACHINE, &Environment::default()).unwrap_or_else(|faults| panic!("{args:?}: {faults}"))
}

/// The faults, which must be exactly `count`.
fn faults(args: &RunArgs, count: usize) -> String {
    let faults = lower(args, &MACHINE, &Environment::default()).expect_err("faulty");
    assert_eq!(faults.0.len(), count, "{faults}");
    faults.to_string()
}

/// The one request of an HTTP plan.
fn http(plan: &Plan) -> &HttpRequest {
    match &plan.operations[0].request {
        Request::Http1(request) => request,
        other => panic!("{other:?}"),
    }
}

/// The bytes of the first request.
fn sent(args: &RunArgs) -> String {
    let plan = lowered(args).plan;
    let mut bytes = Vec::new();
    http(&plan).bytes.write(&plan.variables, Key::Seq(0), &mut bytes);
    String::from_utf8(bytes).unwrap()
}

/// The values of all header lines `name` in the first request, in order.
fn sent_headers(args: &RunArgs, name: &str) -> Vec<String> {
    let sent = sent(args);
    let head = sent.split("\r\n\r\n").next().unwrap();
    let lines = head.split("\r\n").skip(1).map(|line| line.split_once(": ").unwrap_or((line, "")));
    lines.filter(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn defaults_are_those_of_the_manual() {
    let run = lowered(&args());
    let Load::Open { profile, arrivals, requests } = &run.plan.load else { panic!("open") };
    assert_eq!(profile.length(), Span::from_secs(30));
    assert_eq!((*arrivals, *requests), (ArrivalLaw::Poisson, None));
    let plan = &run.plan;
    assert_eq!((plan.warmup, plan.timeout, plan.drain), (Span::ZERO, Span::from_secs(5), Span::from_secs(5)));
    assert_eq!(plan.connect_timeout, Span::from_secs(5));
    assert_eq!((plan.retry, plan.late, plan.max_in_flight), (None, LatePolicy::Send, None));
    assert_eq!((plan.wait, plan.seed), (WaitStrategy::Auto, 1));
    // The descriptor limit less the 64 kept; half of eight processors.
    assert_eq!((plan.connections, plan.workers), (1_000, 4));
    assert_eq!(run.quantiles, [0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 0.9999]);
    assert!(!run.rate_max && run.notes.is_empty(), "{run:?}");

    let large = Machine { cpus: 1, descriptor_limit: 1_048_576 };
    let plan = lower(&args(), &large, &Environment::default()).unwrap().plan;
    assert_eq!((plan.connections, plan.workers), (10_000, 1));
}

#[test]
fn cli_01_rates_below_one_a_second_are_exact_and_nonsense_is_refused_with_the_forms() {
    for rate in ["0.1", "6/m", "1/10s"] {
        let run = lowered(&RunArgs { rate: some(rate), ..args() });
        let Load::Open { profile, .. } = run.plan.load else { panic!("open") };
        assert_eq!((profile.stages()[0].from.requests(), profile.even_count()), (1, 3), "{rate}");
    }
    // So rare that a run of the default length may hold none, which is said.
    let rare = lowered(&RunArgs { rate: some("0.0001"), ..args() });
    assert!(rare.notes[0].contains("0.003 requests"), "{:?}", rare.notes);
    for (rate, reason) in [
        ("0", "would send nothing"),
        ("-1", "not a rate"),
        ("NaN", "not a rate"),
        ("inf", "not a rate"),
        ("1e400", "not a rate"),
        ("", "not a rate"),
        ("10000001", "above 10000000/s"),
        ("1/1ns", "above 10000000/s"),
    ] {
        let text = faults(&RunArgs { rate: some(rate), ..args() }, 1);
        for part in [&format!("--rate {rate}: "), reason, "1/10s", "max"] {
            assert!(text.contains(part), "{rate}: {text}");
        }
    }
    assert!(lower(&RunArgs { rate: some("10000000"), ..args() }, &MACHINE, &Environment::default()).is_ok());
}

#[test]
fn cli_03_with_a_count_and_a_duration_both_limit_and_a_count_alone_has_no_duration() {
    let count = RunArgs { requests: some("1"), ..args() };
    let both = RunArgs { duration: some("1s"), ..count.clone() };
    let open = |args: &RunArgs| match lowered(args).plan.load {
        Load::Open { profile, requests, .. } => (profile.length(), requests),
        Load::Closed { .. } => panic!("open"),
    };
    assert_eq!(open(&both), (Span::from_secs(1), Some(1)));
    assert_eq!(open(&count), (plimsoll_core::profile::ENDLESS, Some(1)));

    let limits = |args: &RunArgs| match lowered(args).plan.load {
        Load::Closed { duration, requests, .. } => (duration, requests),
        Load::Open { .. } => panic!("closed"),
    };
    assert_eq!(limits(&closed("4")), (Some(Span::from_secs(30)), None));
    assert_eq!(limits(&RunArgs { requests: some("1"), ..closed("4") }), (None, Some(1)));
    let both = RunArgs { requests: some("1"), duration: some("1s"), ..closed("4") };
    assert_eq!(limits(&both), (Some(Span::from_secs(1)), Some(1)));
}

#[test]
fn cli_06_the_users_host_header_is_the_only_one_whatever_its_letter_case() {
    for header in ["Host: a.test", "host: a.test", "HOST:a.test"] {
        let args = RunArgs { headers: vec![header.to_owned()], ..args() };
        assert_eq!(sent_headers(&args, "host"), ["a.test"]);
        // Where connections go is another matter.
        let Endpoint::Tcp { host, port, .. } = &lowered(&args).plan.targets[0].endpoint else {
            panic!("tcp")
        };
        assert_eq!((host.as_str(), *port), ("127.0.0.1", 80));
    }
    let replaced = RunArgs {
        body: Some(b"abc".to_vec()),
        headers: ["user-agent: x", "content-type: y", "content-length: 3", "X-A: 1", "x-a: 2"]
            .map(str::to_owned)
            .to_vec(),
        ..args()
    };
    for (name, values) in [
        ("User-Agent", vec!["x"]),
        ("Content-Type", vec!["y"]),
        ("Content-Length", vec!["3"]),
        ("X-A", vec!["1", "2"]),
    ] {
        assert_eq!(sent_headers(&replaced, name), values, "{name}");
    }
    let twice = RunArgs { headers: vec!["Host: a".to_owned(), "host: b".to_owned()], ..args() };
    assert!(faults(&twice, 1).contains("Host"));
}

#[test]
fn cli_07_host_has_the_port_only_where_it_is_not_the_schemes_and_never_a_zone_or_user() {
    for (url, host) in [
        ("http://h:80/", "h"),
        ("http://h:8080", "h:8080"),
        ("https://h:443", "h"),
        ("https://h:80", "h:80"),
        ("http://[::1]:8080/", "[::1]:8080"),
        ("http://[fe80::1%25lo]:80/", "[fe80::1]"),
        ("http://user:pw@h/", "h"),
        ("http://bücher.example/", "xn--bcher-kva.example"),
    ] {
        assert_eq!(sent_headers(&RunArgs { target: url.to_owned(), ..args() }, "Host"), [host], "{url}");
    }
    let zone = lowered(&RunArgs { target: "http://[fe80::1%25lo]:80/".to_owned(), ..args() });
    let tcp =
        Endpoint::Tcp { host: "fe80::1%lo".to_owned(), port: 80, family: Family::Any, addresses: Vec::new() };
    assert_eq!(zone.plan.targets[0].endpoint, tcp);
}

#[test]
fn cli_08_the_target_on_the_wire_is_the_one_typed() {
    for (path, target) in [
        ("/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e=#frag", "/a%2Fb//c/../d?x=%26&y=a+b&z=[1]|{2}&e="),
        ("?x=1", "/?x=1"),
        ("", "/"),
        ("/?", "/?"),
        ("/ä", "/ä"),
    ] {
        let args = RunArgs { target: format!("http://h{path}"), ..args() };
        assert!(sent(&args).starts_with(&format!("GET {target} HTTP/1.1\r\n")), "{}", sent(&args));
    }
}

#[test]
fn cli_09_a_rate_is_the_total_whatever_the_connections_and_workers() {
    for (connections, workers) in [("1", "1"), ("50", "1"), ("50", "8")] {
        let run = lowered(&RunArgs {
            rate: some("10/s"),
            arrivals: some("even"),
            duration: some("10s"),
            connections: some(connections),
            workers: some(workers),
            ..args()
        });
        let Load::Open { profile, .. } = run.plan.load else { panic!("open") };
        assert_eq!(profile.even_count(), 100, "{connections} connections, {workers} workers");
    }
}

#[test]
fn cli_10_low_rates_give_the_right_counts() {
    for (rate, duration, count) in
        [("0.1/s", "25s", 3), ("1/s", "25s", 25), ("7/s", "1s", 7), ("0.5/s", "3s", 2)]
    {
        let run = lowered(&RunArgs { rate: some(rate), duration: some(duration), ..args() });
        let Load::Open { profile, .. } = run.plan.load else { panic!("open") };
        assert_eq!(profile.even_count(), count, "{rate}");
    }
}

#[test]
fn cli_11_max_is_a_closed_loop_and_its_other_spellings_are_answered_with_the_forms() {
    let max = lowered(&RunArgs { rate: some("max"), ..args() });
    assert!(max.rate_max);
    assert!(matches!(max.plan.load, Load::Closed { clients: 64, .. }));
    assert_eq!(max.plan.connections, 64);
    let max = lowered(&RunArgs { rate: some("max"), connections: some("7"), ..args() });
    assert!(matches!(max.plan.load, Load::Closed { clients: 7, .. }));
    assert_eq!(max.plan.connections, 7);
    for rate in ["infinity", "0", "0/0s"] {
        let text = faults(&RunArgs { rate: some(rate), ..args() }, 1);
        assert!(text.contains("500/s") && text.contains("max"), "{text}");
    }
}

#[test]
fn cli_17_there_is_never_a_second_framing() {
    let with =
        |header: &str| RunArgs { body: Some(b"abc".to_vec()), headers: vec![header.to_owned()], ..args() };
    assert!(faults(&with("Transfer-Encoding: chunked"), 1).contains("Transfer-Encoding"));
    let text = faults(&with("Content-Length: 99"), 1);
    assert!(text.contains("99") && text.contains("3 bytes"), "{text}");
}

#[test]
fn pct_12_a_percentile_given_as_a_fraction_is_taken_at_its_word_and_said() {
    let run = lowered(&RunArgs { percentiles: some("0.99, 99.9,50,50"), ..args() });
    // 0.999 and not its neighbour: the rank in a thousand depends on it.
    assert_eq!(run.quantiles, [0.0099, 0.5, 0.999]);
    assert!(run.notes[0].contains("p0.99"), "{:?}", run.notes);
    for list in ["0", "100", "-1", "p99", "99,", "1e1", "NaN", ".", "50;90"] {
        assert!(faults(&RunArgs { percentiles: some(list), ..args() }, 1).contains("99.9"), "{list}");
    }
}

#[test]
fn without_a_model_the_three_forms_are_shown_and_two_models_are_one_too_many() {
    let none = faults(&RunArgs { rate: None, ..args() }, 1);
    for form in ["--rate 500", "--clients 64", "--users 1000"] {
        assert!(none.contains(form), "{none}");
    }
    let two = faults(&RunArgs { clients: some("8"), ..args() }, 1);
    assert!(two.contains("--rate and --clients"), "{two}");
    let stages = faults(&RunArgs { stages: some("1/s:1s"), ..args() }, 1);
    assert!(stages.contains("--rate and --stages"), "{stages}");
    let users = faults(&RunArgs { rate: None, users: some("9"), think: some("exp:1s"), ..args() }, 1);
    assert!(users.contains("not yet"), "{users}");
}

#[test]
fn stages_have_lengths_of_their_own_and_may_end_by_a_count() {
    let stages = RunArgs { rate: None, stages: some("100/s:30s,100/s..500/s:60s"), ..args() };
    let run = lowered(&RunArgs { requests: some("5"), ..stages.clone() });
    let Load::Open { profile, requests, .. } = run.plan.load else { panic!("open") };
    assert_eq!((profile.length(), requests), (Span::from_secs(90), Some(5)));
    assert!(faults(&RunArgs { duration: some("9s"), ..stages.clone() }, 1).contains("--duration"));
    for list in ["", "100/s", "100/s:0", "x:1s", "1..2", "0/s:1s", "20000000/s:1s", "1/s:9000h"] {
        let text = faults(&RunArgs { stages: some(list), ..stages.clone() }, 1);
        assert!(text.contains("--stages"), "{list}: {text}");
    }
}

#[test]
fn all_faults_are_reported_at_once() {
    let all = faults(
        &RunArgs {
            target: "htp://h/".to_owned(),
            rate: some("0"),
            duration: some("0"),
            timeout: some("5"),
            connections: some("5000"),
            workers: some("0"),
            wait: some("hope"),
            late: some("skip:0"),
            arrivals: some("bursty"),
            percentiles: some("101"),
            method: some("G T"),
            headers: vec!["no colon".to_owned(), "Transfer-Encoding: chunked".to_owned()],
            variables: vec!["x".to_owned()],
            ipv4: true,
            ipv6: true,
            ..args()
        },
        14,
    );
    for value in [
        "htp://",
        "--rate 0",
        "--duration 0",
        "--timeout 5",
        "--connections 5000",
        "--workers 0",
        "--wait hope",
        "--late skip:0",
        "--arrivals bursty",
        "--percentiles 101",
        "G T",
        "no colon",
        "Transfer-Encoding",
        "--var x",
    ] {
        assert!(all.contains(value), "{value} in\n{all}");
    }
}

#[test]
fn a_drain_is_as_long_as_the_timeout_and_five_seconds_without_one() {
    let times = |timeout: &str, drain: Option<&str>| {
        let run = lowered(&RunArgs { timeout: some(timeout), drain: drain.map(str::to_owned), ..args() });
        (run.plan.timeout, run.plan.drain, run.notes.len())
    };
    assert_eq!(times("2s", None), (Span::from_secs(2), Span::from_secs(2), 0));
    assert_eq!(times("2s", Some("0")), (Span::from_secs(2), Span::ZERO, 0));
    assert_eq!(times("0", None), (Span::MAX, Span::from_secs(5), 1));
    assert_eq!(times("0", Some("1m")), (Span::MAX, Span::from_secs(60), 0));
}

#[test]
fn times_and_counts_out_of_range_name_the_limit() {
    for (args, limit) in [
        (RunArgs { duration: some("8761h"), ..args() }, "8760h"),
        (RunArgs { connect_timeout: some("0"), ..args() }, "no time to connect"),
        (RunArgs { requests: some("0"), ..args() }, "least value, 1"),
        (RunArgs { requests: some("+5"), ..args() }, "plain digits"),
        (RunArgs { max_in_flight: some("0"), ..args() }, "least value, 1"),
        (RunArgs { workers: some("1025"), ..args() }, "greatest value, 1024"),
        (RunArgs { seed: some("-1"), ..args() }, "plain digits"),
        (RunArgs { retry: some("0"), ..args() }, "all copies at once"),
        (RunArgs { retry: some("1s"), retry_copies: some("1"), ..args() }, "least value, 2"),
        (RunArgs { retry: some("5s"), ..args() }, "not below the timeout of 5s"),
        (RunArgs { retry_copies: some("3"), ..args() }, "--retry 200ms"),
        (closed("0"), "least value, 1"),
        (closed("1000001"), "greatest value, 1000000"),
    ] {
        let text = faults(&args, 1);
        assert!(text.contains(limit), "{text}");
    }
}

#[test]
fn connections_never_exceed_what_descriptors_allow_and_both_figures_are_named() {
    for args in [
        RunArgs { connections: some("1001"), ..args() },
        closed("1001"),
        // Each client may have three copies under way.
        RunArgs { retry: some("1s"), ..closed("334") },
    ] {
        let text = faults(&args, 1);
        assert!(text.contains("limit of 1064 allows 1000") && text.contains("ulimit -n"), "{text}");
    }
    assert_eq!(lowered(&closed("1000")).plan.connections, 1_000);
    assert_eq!(lowered(&RunArgs { retry: some("1s"), ..closed("333") }).plan.connections, 999);
    assert!(faults(&RunArgs { connections: some("0"), ..args() }, 1).contains("least value, 1"));
    let tiny = lower(&closed("5"), &Machine { cpus: 1, descriptor_limit: 64 }, &Environment::default())
        .expect_err("no descriptor left");
    assert_eq!(tiny.0.len(), 1, "{tiny}");
    assert!(tiny.to_string().contains("descriptor limit 64"), "{tiny}");
    // Sharing is allowed, and said.
    let shared = lowered(&RunArgs { connections: some("2"), ..closed("8") });
    assert_eq!((shared.plan.connections, shared.notes.len()), (2, 1));
}

#[test]
fn workers_are_capped_and_the_cap_is_said_when_it_was_asked_for() {
    for (args, workers, notes) in [
        (closed("64"), 4, 0),
        (closed("4"), 2, 0),
        (closed("1"), 1, 0),
        (RunArgs { workers: some("8"), ..closed("64") }, 8, 0),
        (RunArgs { workers: some("8"), ..closed("4") }, 2, 1),
        (RunArgs { connections: some("3"), ..args() }, 1, 0),
        (RunArgs { max_in_flight: some("2"), workers: some("3"), ..args() }, 2, 1),
    ] {
        let run = lowered(&args);
        assert_eq!((run.plan.workers, run.notes.len()), (workers, notes), "{args:?}");
    }
}

#[test]
fn flags_of_open_loops_are_refused_in_closed_ones() {
    let text = faults(
        &RunArgs { arrivals: some("even"), max_in_flight: some("5"), late: some("skip:1ms"), ..closed("8") },
        3,
    );
    assert!(text.contains("--clients is a closed loop"), "{text}");
    let max = RunArgs { rate: some("max"), arrivals: some("even"), ..args() };
    assert!(faults(&max, 1).contains("--rate max is a closed loop"));
}

#[test]
fn retries_and_late_requests_are_read() {
    let run = lowered(&RunArgs { retry: some("200ms"), late: some("skip:100ms"), ..args() });
    assert_eq!(run.plan.retry, Some(Retry { after: Span::from_ms(200), copies: 3 }));
    assert_eq!(run.plan.late, LatePolicy::Skip(Span::from_ms(100)));
    for late in ["skip", "skip:", "skip:5", "skip:9000h", "drop"] {
        assert!(faults(&RunArgs { late: some(late), ..args() }, 1).contains("--late"), "{late}");
    }
}

#[test]
fn variables_fill_url_headers_and_body_and_unused_ones_are_faults() {
    let args = RunArgs {
        target: "http://h/${n}?x=${n}".to_owned(),
        headers: vec!["X-N: ${n}".to_owned()],
        body: Some(b"id=${n}".to_vec()),
        variables: vec!["n=sequence".to_owned()],
        ..args()
    };
    let text = sent(&args);
    assert!(text.starts_with("POST /0?x=0 HTTP/1.1\r\n"), "{text}");
    assert!(text.contains("\r\nX-N: 0\r\n") && text.ends_with("Content-Length: 4\r\n\r\nid=0"), "{text}");
    let facts = lowered(&args).plan.operations[0].facts.clone();
    assert_eq!((facts.body_bytes, facts.method.as_str()), (3, "POST"));

    // Texts of a file, and a number below zero, count in the length of the body.
    let cells = RunArgs {
        target: "http://h/${name}".to_owned(),
        body: Some(b"${name} ${n}".to_vec()),
        variables: vec!["name=csv:dir/a:b.csv:name".to_owned(), "n=sequence:-12..0".to_owned()],
        files: vec![("dir/a:b.csv".to_owned(), b"id,name\n1,%C3%A4\n2,b c\n".to_vec())],
        ..self::args()
    };
    assert_eq!(cells.files_named(&Environment::default()), ["dir/a:b.csv"]);
    let broken = faults(&cells, 1);
    assert!(broken.contains("row 2 of dir/a:b.csv has a space"), "{broken}");
    let sound = RunArgs { files: vec![(cells.files[0].0.clone(), b"name\n%C3%A4\n".to_vec())], ..cells };
    let sent = self::sent(&sound);
    assert!(sent.starts_with("POST /%C3%A4 HTTP/1.1"), "{sent}");
    assert!(sent.contains("Content-Length: 10\r\n") && sent.ends_with("%C3%A4 -12"), "{sent}");

    let unused = RunArgs { variables: vec!["m=uniform:0..5".to_owned()], ..self::args() };
    assert!(faults(&unused, 1).contains("--var m: is not used"));
    let undeclared = lowered(&RunArgs { target: "http://h/${id}".to_owned(), ..self::args() });
    assert!(undeclared.notes[0].contains("${id} is sent as it stands"), "{:?}", undeclared.notes);
    for law in ["n", "n=", "n=zipf", "n=uniform:5..5", "5=sequence", "=sequence"] {
        let args = RunArgs { variables: vec![law.to_owned()], ..self::args() };
        assert!(faults(&args, 1).contains("--var"), "{law}");
    }
}

#[test]
fn users_and_passwords_become_basic_auth_and_are_kept_out_of_reports() {
    // RFC 7617's example.
    let expected = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
    let flag = RunArgs { user: some("Aladdin:open sesame"), ..args() };
    let url = RunArgs { target: "http://Aladdin:open%20sesame@h/x".to_owned(), ..args() };
    for args in [&flag, &url] {
        assert_eq!(sent_headers(args, "Authorization"), [expected]);
        let run = lowered(args);
        let facts = &run.plan.operations[0].facts;
        assert_eq!(facts.headers, [("Authorization".to_owned(), "(secret)".to_owned())]);
        let shown = format!("{facts:?} {:?}", run.plan.targets);
        assert!(!shown.contains("Aladdin") && !shown.contains("sesame"), "{shown}");
    }
    let both = RunArgs { user: some("a:b"), ..url };
    assert!(faults(&both, 1).contains("the URL has a user as well"));
    assert!(faults(&RunArgs { user: some("a"), ..args() }, 1).contains("no password"));
    let header = RunArgs { headers: vec!["authorization: x".to_owned()], ..flag };
    assert!(faults(&header, 1).contains("Authorization"));
}

#[test]
fn the_codec_is_told_of_head_requests_and_closing_connections() {
    let protocol = |args: &RunArgs| {
        let plan = lowered(args).plan;
        let HttpRequest { head_only, close, .. } = http(&plan);
        (*head_only, *close)
    };
    let head = RunArgs { method: some("HEAD"), ..args() };
    assert_eq!(protocol(&head), (true, false));
    let close = RunArgs { no_keepalive: true, ..args() };
    assert_eq!(protocol(&close), (false, true));
    assert_eq!(sent_headers(&close, "Connection"), ["close"]);
    let twice = RunArgs { headers: vec!["Connection: close".to_owned()], ..close };
    assert!(faults(&twice, 1).contains("--no-keepalive"));
}

#[test]
fn tls_02_the_server_name_is_the_urls_host_unless_sni_names_another() {
    let https = |url: &str| RunArgs { target: url.to_owned(), ..args() };
    let name = |args: &RunArgs| lowered(args).plan.targets[0].tls.clone().expect("TLS").server_name;
    assert_eq!(name(&https("https://a.test:8443/")), "a.test");
    assert_eq!(name(&https("https://a.test./")), "a.test");
    assert_eq!(name(&https("https://[::1]/")), "::1");
    // A Host header does not change it; --connect-to does not either.
    let host = RunArgs { headers: vec!["Host: b.test".to_owned()], ..https("https://127.0.0.1/") };
    assert_eq!(name(&host), "127.0.0.1");
    let elsewhere =
        RunArgs { connect_to: vec!["a.test:443:127.0.0.1:8443".to_owned()], ..https("https://a.test/") };
    assert_eq!(name(&elsewhere), "a.test");
    let endpoint = lowered(&elsewhere).plan.targets[0].endpoint.clone();
    let tcp = Endpoint::Tcp {
        host: "127.0.0.1".to_owned(),
        port: 8443,
        family: Family::Any,
        addresses: Vec::new(),
    };
    assert_eq!(endpoint, tcp);
    assert_eq!(name(&RunArgs { sni: some("a.test"), ..host.clone() }), "a.test");
    assert!(faults(&RunArgs { sni: some("127.0.0.1"), ..host }, 1).contains("--sni 127.0.0.1"));
    let tls = lowered(&https("https://h/")).plan.targets[0].tls.clone().expect("TLS");
    assert_eq!(tls.alpn, [b"http/1.1".to_vec()]);
    assert!(matches!(tls.verification, Verification::PlatformRoots));
}

#[test]
fn certificates_are_checked_against_what_was_given() {
    let https = RunArgs { target: "https://h/".to_owned(), ..args() };
    let verification = |args: &RunArgs| lowered(args).plan.targets[0].tls.clone().unwrap().verification;
    let pem = b"-----BEGIN CERTIFICATE-----\n".to_vec();
    let own_root = RunArgs { ca_certificates: Some(pem.clone()), ..https.clone() };
    assert!(matches!(verification(&own_root), Verification::Roots(roots) if roots == pem));
    let unchecked = RunArgs { insecure: true, ..https.clone() };
    assert!(matches!(verification(&unchecked), Verification::DangerouslyNone));
    let key = RunArgs { ca_certificates: Some(b"-----BEGIN PRIVATE KEY-----".to_vec()), ..https };
    assert!(faults(&key, 1).contains("no PEM certificate"));
    assert!(faults(&RunArgs { insecure: true, ..own_root }, 1).contains("-k and --cacert"));
    let plain = RunArgs { insecure: true, sni: some("a"), ca_certificates: Some(pem), ..args() };
    assert!(faults(&plain, 3).contains("http:// URL has none"));
}

#[test]
fn con_07_where_connections_go_can_be_named_by_address_family_and_socket() {
    let name = RunArgs { target: "http://a.test:81/".to_owned(), ..args() };
    let family = |args: &RunArgs| match lowered(args).plan.targets[0].endpoint {
        Endpoint::Tcp { family, .. } => family,
        Endpoint::Unix(_) => panic!("tcp"),
    };
    assert_eq!(family(&name), Family::Any);
    assert_eq!(family(&RunArgs { ipv4: true, ..name.clone() }), Family::V4);
    assert_eq!(family(&RunArgs { ipv6: true, ..name.clone() }), Family::V6);
    assert!(faults(&RunArgs { ipv6: true, ..args() }, 1).contains("-6 with 127.0.0.1"));

    let given = |rule: &str| {
        let run = lowered(&RunArgs { resolve: vec![rule.to_owned()], ..name.clone() });
        match run.plan.targets[0].endpoint.clone() {
            Endpoint::Tcp { addresses, .. } => addresses,
            Endpoint::Unix(_) => panic!("tcp"),
        }
    };
    let addresses: Vec<IpAddr> = vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()];
    assert_eq!(given("A.test:81:127.0.0.1,[::1]"), addresses);
    assert_eq!(given("*:81:127.0.0.1"), addresses[..1]);
    for (resolve, reason) in [
        ("b.test:81:127.0.0.1", "concerns no connection"),
        ("a.test:80:127.0.0.1", "concerns no connection"),
        ("a.test:81", "three parts"),
        ("a.test:81:localhost", "not an address"),
        ("a.test:x:127.0.0.1", "not a port"),
    ] {
        let text = faults(&RunArgs { resolve: vec![resolve.to_owned()], ..name.clone() }, 1);
        assert!(text.contains(reason), "{text}");
    }
    for (rule, reason) in [
        ("b.test:81:h:1", "applies to no URL"),
        ("a.test:81:h", "four parts"),
        ("a.test:81:h:0", "not a port"),
    ] {
        let text = faults(&RunArgs { connect_to: vec![rule.to_owned()], ..name.clone() }, 1);
        assert!(text.contains(reason), "{text}");
    }
    let any = lowered(&RunArgs { connect_to: vec!["::[::1]:".to_owned()], ..name.clone() });
    let tcp = Endpoint::Tcp { host: "::1".to_owned(), port: 81, family: Family::Any, addresses: Vec::new() };
    assert_eq!(any.plan.targets[0].endpoint, tcp);

    let socket = RunArgs { unix_socket: Some("run/x.sock".into()), ..name };
    assert_eq!(lowered(&socket).plan.targets[0].endpoint, Endpoint::Unix("run/x.sock".into()));
    assert!(faults(&RunArgs { ipv4: true, ..socket }, 1).contains("leave out -4"));
}
