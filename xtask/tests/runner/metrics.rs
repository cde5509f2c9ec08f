//! The live session as a real Prometheus reads it.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::support::Home;

/// The body of what an HTTP server answers.
fn get(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    Some(answer)
}

/// Debian's Prometheus, which reads `target` every second.
struct Prometheus {
    child: Child,
    address: String,
    _home: tempfile::TempDir,
}

impl Prometheus {
    /// # Panics
    /// Where it is not installed: `apt-get install prometheus` brings it.
    fn watching(target: &str) -> Self {
        let program = ["/usr/bin/prometheus", "/usr/local/bin/prometheus"]
            .into_iter()
            .find(|path| Path::new(path).exists())
            .expect("Prometheus is installed (apt-get install prometheus)");
        let home = tempfile::tempdir().expect("a folder");
        let configuration = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: torchgauge\n  \
             static_configs: [{{targets: ['{target}']}}]\n"
        );
        let file = home.path().join("prometheus.yml");
        fs::write(&file, configuration).expect("the configuration is written");
        // A free port, given back for the moment until Prometheus takes it.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                home.path().join("data").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("Prometheus starts");
        Self {
            child,
            address,
            _home: home,
        }
    }

    /// The newest value of a query, once there is one.
    fn value(&self, query: &str) -> f64 {
        let began = Instant::now();
        let path = format!("/api/v1/query?query={query}");
        loop {
            let value = get(&self.address, &path).and_then(|answer| {
                let (_, body) = answer.split_once("\r\n\r\n")?;
                let start = body.find('{')?;
                let end = body.rfind('}')?;
                let body: Value = serde_json::from_str(&body[start..=end]).ok()?;
                let value = &body["data"]["result"][0]["value"][1];
                value.as_str()?.parse::<f64>().ok()
            });
            if let Some(value) = value {
                return value;
            }
            assert!(
                began.elapsed() < Duration::from_mins(1),
                "Prometheus knows nothing of {query}: {:?}",
                get(&self.address, &path)
            );
            thread::sleep(Duration::from_millis(300));
        }
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_real_prometheus_reads_the_session_under_way() {
    let home = Home::new();
    home.gpus("gpus 1\n0.temperature 41\n0.used 3000000000\n");
    let running = home.bench(
        "s",
        "0001=sleep:60000",
        &["--device=cuda:0", "--metrics-listen=0"],
    );
    running.until_records(1);
    running.until_it_runs();
    let address = running.metrics_address();
    assert!(address.starts_with("127.0.0.1:"), "{address}");

    let answer = get(&address, "/metrics").expect("an answer");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.to_lowercase()
            .contains("content-type: application/openmetrics-text; version=1.0.0"),
        "{head}"
    );
    assert!(body.trim_end().ends_with("# EOF"), "{body}");
    let other = get(&address, "/").expect("an answer");
    assert!(other.starts_with("HTTP/1.1 404"), "{other}");

    let prometheus = Prometheus::watching(&address);
    for (query, expect) in [
        ("torchgauge_runs_planned", 2.0),
        ("torchgauge_runs_remaining", 1.0),
        ("torchgauge_session_complete", 0.0),
        ("torchgauge_attempts_total%7Boutcome=%22ok%22%7D", 1.0),
        (
            "torchgauge_gpu_temperature_celsius%7Bdevice=%22cuda:0%22%7D",
            41.0,
        ),
        ("torchgauge_gpu_used_bytes", 3e9),
        (
            "torchgauge_peak_allocated_bytes%7Bscenario=%22one%22%7D",
            104_857_600.0,
        ),
        ("torchgauge_session_info%7Bengine=%22mock%22%7D", 1.0),
        ("up", 1.0),
    ] {
        let found = prometheus.value(query);
        assert!((found - expect).abs() < 1e-6, "{query}: {found}");
    }
    assert!(prometheus.value("torchgauge_throughput_samples_per_second") > 0.0);
    assert!(prometheus.value("torchgauge_run_memory_bytes") > 1e6);
}

#[test]
fn an_address_that_cannot_be_had_starts_nothing() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its address").to_string();
    let listen = format!("--metrics-listen={address}");
    let text = home.bench("s", "", &["--device=cpu", &listen]).ends_with(4);
    assert!(
        text.contains(&format!("cannot listen on {address}")),
        "{text}"
    );
    let text = home
        .bench("s", "", &["--device=cpu", "--metrics-listen=nowhere"])
        .ends_with(2);
    assert!(
        text.contains("`nowhere` is no address to listen on"),
        "{text}"
    );
    assert!(!home.path("s").exists());
}
