//! Answers that a real engine gives seldom, or only in another version: canned
//! HTTP replies over a Unix socket.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use engine::{Cause, ContainerSpec, Endpoint, Engine, Error, Login, Oom, Product, Sample};
use futures_util::{StreamExt as _, stream};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{UnixListener, UnixStream},
};

const DOCKER_VERSION: &str = r#"{"Version":"20.10.24+dfsg1","ApiVersion":"1.41","Components":[{"Name":"Engine","Version":"20.10.24+dfsg1"}]}"#;
const DOCKER_INFO: &str = r#"{"ID":"X","Driver":"overlay2","DriverStatus":[["Backing Filesystem","extfs"]],"CgroupVersion":"2","NCPU":8,"MemTotal":1000,"DockerRootDir":"/var/lib/docker","Runtimes":{"runc":{"path":"runc"}},"ServerVersion":"20.10.24+dfsg1","SecurityOptions":["name=seccomp,profile=default"],"Warnings":null}"#;

/// What is answered to requests whose line contains a text: the first match wins.
#[derive(Clone)]
struct Reply {
    request: &'static str,
    answer: String,
    /// Set where it is given once only: whether it was.
    given: Option<Arc<AtomicBool>>,
}

impl Reply {
    fn once(mut self) -> Self {
        self.given = Some(Arc::default());
        self
    }

    fn is_for(&self, line: &str) -> bool {
        let fits = line.starts_with(self.request);
        fits && !(self.given.as_ref()).is_some_and(|given| given.swap(true, Ordering::SeqCst))
    }
}

fn json(request: &'static str, status: &str, body: &str) -> Reply {
    let length = body.len();
    Reply {
        request,
        answer: format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        ),
        given: None,
    }
}

fn ok(request: &'static str, body: &str) -> Reply {
    json(request, "200 OK", body)
}

fn raw(request: &'static str, answer: &str) -> Reply {
    Reply {
        request,
        answer: answer.to_owned(),
        given: None,
    }
}

struct Canned {
    folder: tempfile::TempDir,
    /// What it was asked.
    requests: Arc<Mutex<Vec<String>>>,
    server: tokio::task::JoinHandle<()>,
}

impl Canned {
    fn serve(mut replies: Vec<Reply>) -> Self {
        replies.push(ok("GET /version", DOCKER_VERSION));
        replies.push(ok("GET /info", DOCKER_INFO));
        replies.push(ok(
            "POST /containers/create",
            r#"{"Id":"c0ffee","Warnings":null}"#,
        ));
        replies.push(json("POST /containers/c0ffee/start", "204 No Content", ""));
        replies.push(json("DELETE /containers/c0ffee", "204 No Content", ""));
        let folder = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(folder.path().join("sock")).unwrap();
        let requests = Arc::default();
        let heard = Arc::clone(&requests);
        let server = tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                tokio::spawn(answer(stream, replies.clone(), Arc::clone(&heard)));
            }
        });
        Self {
            folder,
            requests,
            server,
        }
    }

    fn endpoint(&self) -> Endpoint {
        Endpoint::At(self.folder.path().join("sock"))
    }

    async fn connect(&self) -> Engine {
        Engine::connect(&self.endpoint())
            .await
            .unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for Canned {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn answer(mut stream: UnixStream, replies: Vec<Reply>, requests: Arc<Mutex<Vec<String>>>) {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    // The head, then the body as far as the head says.
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "))
                .map_or(0, |length| length.trim().parse::<usize>().unwrap());
            let is_whole = if head.contains("transfer-encoding: chunked") {
                body.ends_with("0\r\n\r\n")
            } else {
                body.len() >= length
            };
            if is_whole {
                break;
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return,
            Ok(count) => request.extend_from_slice(&buffer[..count]),
        }
    }
    let text = String::from_utf8_lossy(&request);
    requests.lock().unwrap().push(text.to_string());
    let line = text.lines().next().unwrap_or_default();
    let reply = replies.iter().find(|reply| reply.is_for(line));
    let reply = reply.map_or_else(
        || json("", "404 Not Found", r#"{"message":"page not found"}"#).answer,
        |reply| reply.answer.clone(),
    );
    let _ = stream.write_all(reply.as_bytes()).await;
    let _ = stream.shutdown().await;
}

fn bytes() -> impl futures_util::Stream<Item = std::io::Result<Bytes>> + Send + 'static {
    stream::iter([Ok(Bytes::from_static(b"an archive"))])
}

/// The text of an error, with the socket's path replaced, which is another one each time.
fn without_socket(error: &Error) -> String {
    let text = error.to_string();
    let socket = text.split_once("unix://").and_then(|(_, rest)| {
        let end = rest.find("/sock")?;
        Some(rest[..end].to_owned())
    });
    text.replace(&socket.expect("it names the engine's socket"), "…")
}

fn spec() -> ContainerSpec {
    ContainerSpec {
        image: "image".to_owned(),
        ..Default::default()
    }
}

#[tokio::test]
async fn facts_tell_the_products_apart() {
    let engine = Canned::serve(vec![]).connect().await;
    let facts = engine.facts();
    assert_eq!(facts.product, Product::Docker);
    assert_eq!(facts.version_numbers(), (20, 10));
    assert!(facts.reports_oom());

    let podman = r#"{"Version":"4.3.1","ApiVersion":"1.41","Components":[{"Name":"Podman Engine","Version":"4.3.1"},{"Name":"Conmon","Version":"x"}]}"#;
    let engine = Canned::serve(vec![ok("GET /version", podman)])
        .connect()
        .await;
    assert_eq!(engine.facts().product, Product::Podman);
    assert!(!engine.facts().reports_oom());
}

#[tokio::test]
async fn no_engine_says_what_was_tried_and_how_to_start_one() {
    async fn refused(path: &Path) -> String {
        let error = Engine::connect(&Endpoint::At(path.to_owned())).await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::NoEngine(_)), "{error:?}");
        let text = error.to_string();
        text.replace(path.to_str().unwrap(), "/sock")
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sock");
    insta::assert_snapshot!(refused(&path).await, @r"
    no container engine answers. Tried:
      unix:///sock (given): no such socket
    Start one: `systemctl start docker`, or `dockerd &` where there is no systemd, or `podman system service --time=0 &` for Podman; or set DOCKER_HOST to one that runs.
    ");
    // A socket whose owner has gone.
    drop(UnixListener::bind(&path).unwrap());
    insta::assert_snapshot!(refused(&path).await, @r"
    no container engine answers. Tried:
      unix:///sock (given): nobody listens (the engine has stopped)
    Start one: `systemctl start docker`, or `dockerd &` where there is no systemd, or `podman system service --time=0 &` for Podman; or set DOCKER_HOST to one that runs.
    ");
    let error = Error::NoEngine(vec![engine::Attempt {
        address: "unix:///s".to_owned(),
        origin: "given".to_owned(),
        obstacle: "permission denied on the socket".to_owned(),
    }]);
    insta::assert_snapshot!(error, @r"
    no container engine answers. Tried:
      unix:///s (given): permission denied on the socket
    This user may not use the socket: join its group (`sudo usermod -aG docker $USER`, then log in again), run as root, or use rootless Podman (`podman system service --time=0 &`).
    ");
}

#[tokio::test]
async fn something_that_is_no_engine_is_named_as_such() {
    for reply in [
        raw("GET /version", "SSH-2.0-OpenSSH_9.2p1\r\n"),
        ok("GET /version", "<html>welcome</html>"),
        ok("GET /version", "{\"Version\": 7"),
        json("GET /info", "500 Internal Server Error", "not json"),
    ] {
        let served = Canned::serve(vec![reply]);
        let error = Engine::connect(&served.endpoint()).await.unwrap_err();
        let Error::NoEngine(attempts) = &error else {
            panic!("{error:?}")
        };
        let known = ["no such socket", "nobody listens"];
        let is_known = known
            .iter()
            .any(|words| attempts[0].obstacle.starts_with(words));
        assert!(!is_known, "{error}");
    }
}

#[tokio::test]
async fn a_load_that_fails_inside_of_a_200_fails() {
    let mut refusals = Vec::new();
    for body in [
        r#"{"status":"Loading layer","id":"abc"}
{"errorDetail":{"message":"open /layer.tar: no such file or directory"},"error":"open /layer.tar: no such file or directory"}
"#,
        "{\"stream\":\"Loaded image: x\"}\n{\"stream\":\"Error unpacking image x: failed to extract layer\\n\"}\n",
        "{\"errorDetail\":{\"message\":\"write /l: no space left on device\"}}\n",
    ] {
        let served = Canned::serve(vec![ok("POST /images/load", body)]);
        let engine = served.connect().await;
        let error = engine.load(bytes(), |_| {}).await.unwrap_err();
        assert!(
            matches!(&error, Error::Failed(failure) if failure.operation == "load image archive into")
                && !error.is_engine_gone(),
            "{error:?}"
        );
        refusals.push(without_socket(&error));
    }
    insta::assert_snapshot!(refusals.join("\n"), @r"
    cannot load image archive into Docker 20.10.24+dfsg1 at unix://…/sock: the engine reported: open /layer.tar: no such file or directory; the engine's log has details (`journalctl -u docker`)
    cannot load image archive into Docker 20.10.24+dfsg1 at unix://…/sock: the engine reported: Error unpacking image x: failed to extract layer; the archive is damaged or incomplete: assemble it again, all layers included
    cannot load image archive into Docker 20.10.24+dfsg1 at unix://…/sock: the engine reported: write /l: no space left on device; free disk space where the engine stores its data (`docker system df`, `docker info --format {{.DockerRootDir}}`)
    ");
    let served = Canned::serve(vec![ok(
        "POST /images/load",
        "{\"stream\":\"Loaded image: x\\n\"}\n",
    )]);
    served.connect().await.load(bytes(), |_| {}).await.unwrap();
    let served = Canned::serve(vec![raw("POST /images/load", "")]);
    let error = served
        .connect()
        .await
        .load(bytes(), |_| {})
        .await
        .unwrap_err();
    assert!(error.is_engine_gone(), "{error}");
}

#[tokio::test]
async fn a_pull_says_to_the_engine_who_asks() {
    let user = Login {
        username: Some("ci".to_owned()),
        // In plain base64 these would be `+` and `/`, which engines refuse.
        password: Some("~~~???>>>".to_owned()),
        ..Login::default()
    };
    // As `az acr login` gives it.
    let token = Login {
        identitytoken: Some("long".to_owned()),
        ..Login::default()
    };
    let mut told = Vec::new();
    for login in [user, token] {
        let served = Canned::serve(vec![ok("POST /images/create", "{}\n")]);
        let engine = served.connect().await;
        engine
            .pull("r.example/x", Some(login), |_, _| {})
            .await
            .unwrap();
        let requests = served.requests.lock().unwrap().join("");
        let header = requests.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("x-registry-auth")
                .then_some(value)
        });
        // Engines read base64url and nothing else.
        let decode = "printf %s \"$1\" | tr +/ !! | tr -- -_ +/ | base64 --decode";
        let decoded = Command::new("sh")
            .args(["-c", decode, "sh", header.expect("who asks")])
            .output()
            .unwrap();
        told.push(String::from_utf8(decoded.stdout).unwrap());
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    {"username":"ci","password":"~~~???>>>","auth":null,"email":null,"serveraddress":null,"identitytoken":null,"registrytoken":null}
    {"username":null,"password":null,"auth":null,"email":null,"serveraddress":null,"identitytoken":"long","registrytoken":null}
    "#);
}

#[tokio::test]
async fn a_pull_knows_the_size_of_an_image_that_came_whole() {
    const FIRST: &str = r#"{"id":"a","status":"Pulling fs layer"}"#;
    const SECOND: &str = r#"{"id":"b","status":"Pulling fs layer"}"#;
    const LOADING: &str =
        r#"{"id":"a","status":"Downloading","progressDetail":{"current":1,"total":700}}"#;
    const MORE: &str =
        r#"{"id":"b","status":"Downloading","progressDetail":{"current":9,"total":40}}"#;
    const OTHER: &str = r#"{"id":"c","status":"Already exists"}"#;
    let size = async |lines: &[&str]| {
        let body = format!("{}\n", lines.join("\n"));
        let served = Canned::serve(vec![ok("POST /images/create", &body)]);
        let engine = served.connect().await;
        engine.pull("r.example/x", None, |_, _| {}).await.unwrap()
    };
    assert_eq!(size(&[FIRST, SECOND, LOADING, MORE]).await, Some(740));
    assert_eq!(size(&[OTHER, FIRST, LOADING]).await, None);
    assert_eq!(size(&[FIRST, SECOND, LOADING]).await, None);
    assert_eq!(size(&[r#"{"status":"Status: up to date"}"#]).await, None);
}

const EXITED: &str = r#"{"Id":"c0ffee","State":{"Status":"exited","Running":false,"OOMKilled":false,"ExitCode":3,"Error":"","StartedAt":"2026-01-02T03:04:05Z","FinishedAt":"2026-01-02T03:04:06Z"}}"#;

async fn exit_of(replies: Vec<Reply>, limited: bool) -> Result<engine::Exit, Error> {
    let served = Canned::serve(replies);
    let engine = served.connect().await;
    let mut spec = spec();
    spec.limits.memory_bytes = limited.then_some(1 << 30);
    let mut container = engine.create(&spec).await.unwrap();
    container.start().await.unwrap();
    let exit = container.wait(Duration::from_secs(20)).await;
    container.remove().await.unwrap();
    exit
}

#[tokio::test]
async fn a_non_zero_exit_is_no_error() {
    let replies = vec![
        ok("POST /containers/c0ffee/wait", "{\"StatusCode\":3}\n"),
        ok("GET /containers/c0ffee/json", EXITED),
    ];
    let exit = exit_of(replies, false).await.unwrap();
    assert_eq!((exit.code, exit.signal, exit.oom), (Some(3), None, Oom::No));
    assert_eq!(exit.finished_at.as_deref(), Some("2026-01-02T03:04:06Z"));

    let replies = vec![
        ok(
            "POST /containers/c0ffee/wait",
            "{\"StatusCode\":125,\"Error\":{\"Message\":\"runc died\"}}\n",
        ),
        ok("GET /containers/c0ffee/json", EXITED),
    ];
    let exit = exit_of(replies, false).await.unwrap();
    assert_eq!(exit.code, Some(125));
}

#[tokio::test]
async fn out_of_memory_is_told_from_other_kills() {
    async fn check(code: i64, killed: bool, podman: bool, limited: bool, expect: Oom) {
        let state = EXITED
            .replace("\"OOMKilled\":false", &format!("\"OOMKilled\":{killed}"))
            .replace("\"ExitCode\":3", &format!("\"ExitCode\":{code}"));
        let mut replies = vec![
            ok(
                "POST /containers/c0ffee/wait",
                &format!("{{\"StatusCode\":{code}}}\n"),
            ),
            ok("GET /containers/c0ffee/json", &state),
        ];
        if podman {
            let version = r#"{"Version":"4.3.1","ApiVersion":"1.41","Components":[{"Name":"Podman Engine","Version":"4.3.1"}]}"#;
            replies.push(ok("GET /version", version));
        }
        let exit = exit_of(replies, limited).await.unwrap();
        assert_eq!(exit.oom, expect, "{code} {killed} {podman} {limited}");
    }
    check(137, true, false, true, Oom::Container).await;
    check(1, true, false, true, Oom::Child).await;
    check(0, true, false, true, Oom::Child).await;
    check(137, false, false, true, Oom::No).await;
    check(137, false, true, true, Oom::Unknown).await;
    check(137, false, true, false, Oom::No).await;
    check(1, false, true, true, Oom::No).await;
}

#[tokio::test]
async fn events_tell_who_ended_a_container() {
    async fn exit(events: &str) -> engine::Exit {
        // Removed by somebody: its state is gone.
        let replies = vec![
            ok("POST /containers/c0ffee/wait", "{\"StatusCode\":137}\n"),
            ok("GET /events", events),
        ];
        exit_of(replies, true).await.unwrap()
    }
    let kill = r#"{"Type":"container","Action":"kill","time":1}"#;
    let oom = r#"{"Type":"container","Action":"oom","time":1}"#;
    let die = r#"{"Type":"container","Action":"die","time":1}"#;
    let told = exit(&format!("{kill}\n{die}\n")).await;
    assert_eq!(
        (told.oom, told.ended_by.as_deref()),
        (Oom::No, Some("kill"))
    );
    let told = exit(&format!(
        "{oom}\n{die}\n{}\n",
        kill.replace("kill", "destroy")
    ))
    .await;
    assert_eq!(told.oom, Oom::Container);
    let told = exit(&format!("{die}\n")).await;
    assert_eq!((told.oom, told.ended_by), (Oom::Unknown, None));
    // Podman may break off before the kill and the end.
    let started = r#"{"Type":"container","Action":"start","time":1}"#;
    let replies = vec![
        ok("POST /containers/c0ffee/wait", "{\"StatusCode\":137}\n"),
        ok("GET /events", "").once(),
        ok("GET /events", started).once(),
        ok("GET /events", &format!("{started}\n{kill}\n{die}\n")),
    ];
    let told = exit_of(replies, true).await.unwrap();
    assert_eq!(
        (told.oom, told.ended_by.as_deref()),
        (Oom::No, Some("kill"))
    );
}

#[tokio::test]
async fn podmans_stopped_state_and_a_vanished_container_do_not_hide_the_code() {
    let stopped = EXITED.replace("\"exited\"", "\"stopped\"");
    let replies = vec![
        ok("POST /containers/c0ffee/wait", "{\"StatusCode\":3}\n"),
        ok("GET /containers/c0ffee/json", &stopped),
    ];
    assert_eq!(exit_of(replies, false).await.unwrap().code, Some(3));
    let replies = vec![ok("POST /containers/c0ffee/wait", "{\"StatusCode\":3}\n")];
    let exit = exit_of(replies, false).await.unwrap();
    assert_eq!((exit.code, exit.finished_at), (Some(3), None));
}

#[tokio::test]
async fn an_engine_that_goes_away_during_a_wait_is_told_apart() {
    let replies = vec![
        raw("POST /containers/c0ffee/wait", ""),
        raw("GET /containers/c0ffee/json", ""),
    ];
    let error = exit_of(replies, false).await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "wait for container")
            && error.is_engine_gone(),
        "{error:?}"
    );
    insta::assert_snapshot!(without_socket(&error), @"cannot wait for container c0ffee on Docker 20.10.24+dfsg1 at unix://…/sock: the connection to the engine broke (client error (SendRequest): connection closed before message completed); check that the engine still runs (`systemctl status docker`, `podman system service`), start it again and repeat");
    // The wait's connection broke, and the container had ended.
    let replies = vec![
        raw("POST /containers/c0ffee/wait", ""),
        ok("GET /containers/c0ffee/json", EXITED),
    ];
    assert_eq!(exit_of(replies, false).await.unwrap().code, Some(3));
}

#[tokio::test]
async fn refused_creations_are_typed() {
    async fn refused(status: &str, body: &str) -> Error {
        let served = Canned::serve(vec![json("POST /containers/create", status, body)]);
        let named = ContainerSpec {
            name: Some("run-1".to_owned()),
            ..spec()
        };
        served.connect().await.create(&named).await.unwrap_err()
    }
    let error = refused("409 Conflict", r#"{"message":"Conflict. The container name \"/run-1\" is already in use by container \"abc\"."}"#).await;
    assert!(matches!(error, Error::Failed(_)), "{error:?}");
    insta::assert_snapshot!(without_socket(&error), @r#"cannot create container run-1 on Docker 20.10.24+dfsg1 at unix://…/sock: the engine answered with status 409: Conflict. The container name "/run-1" is already in use by container "abc".; remove the container of this name if it is yours (`docker ps -a` shows it)"#);
    let error = refused("500 Internal Server Error", r#"{"cause":"that name is already in use","message":"container create: creating container storage: the container name \"run-1\" is already in use by abc","response":500}"#).await;
    assert!(matches!(error, Error::Failed(_)), "{error:?}");
    insta::assert_snapshot!(without_socket(&error), @r#"cannot create container run-1 on Docker 20.10.24+dfsg1 at unix://…/sock: the engine answered with status 500: container create: creating container storage: the container name "run-1" is already in use by abc; remove the container of this name if it is yours (`docker ps -a` shows it)"#);
    let error = refused(
        "404 Not Found",
        r#"{"message":"No such image: image:latest"}"#,
    )
    .await;
    assert!(matches!(error, Error::ImageMissing { .. }), "{error:?}");
    insta::assert_snapshot!(without_socket(&error), @"image image is not in Docker 20.10.24+dfsg1 at unix://…/sock; build or load it first (`images build`), nothing is pulled automatically");
    let error = refused(
        "400 Bad Request",
        r#"{"message":"Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available"}"#,
    )
    .await;
    assert!(matches!(error, Error::Failed(_)), "{error:?}");
    insta::assert_snapshot!(without_socket(&error), @"cannot create container run-1 on Docker 20.10.24+dfsg1 at unix://…/sock: the engine answered with status 400: Range of CPUs is from 0.01 to 2.00, as there are only 2 CPUs available; ask for no more CPUs than the machine has");
    let error = refused("201 Created", "garbage").await;
    assert!(
        matches!(error.failure().unwrap().cause, Cause::Unreadable(_)),
        "{error:?}"
    );
}

#[tokio::test]
async fn what_is_best_effort_is_given_up_and_recorded() {
    let refusal = r#"{"message":"OCI runtime create failed: error setting rlimits for ready process: operation not permitted"}"#;
    // A canned engine answers the same each time, so in the end there is nothing left
    // to give up.
    let served = Canned::serve(vec![json(
        "POST /containers/c0ffee/start",
        "500 Internal Server Error",
        refusal,
    )]);
    let engine = served.connect().await;
    let mut spec = spec();
    let unlimited = engine::Ulimit { soft: -1, hard: -1 };
    spec.limits.ulimits.insert("memlock".to_owned(), unlimited);
    let mut container = engine.create(&spec).await.unwrap();
    let error = container.start().await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "start container"),
        "{error:?}"
    );
    let fallbacks = container.fallbacks();
    let given_up: Vec<&str> = fallbacks.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(given_up, ["ulimits"]);
    insta::assert_snapshot!(fallbacks[0].reason, @"OCI runtime create failed: error setting rlimits for ready process: operation not permitted");
}

async fn samples_of(body: &str) -> Vec<Sample> {
    let served = Canned::serve(vec![ok("GET /containers/c0ffee/stats", body)]);
    let engine = served.connect().await;
    let container = engine.create(&spec()).await.unwrap();
    let samples = container.stats().collect::<Vec<_>>().await;
    samples.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn stats_of_docker_on_both_cgroup_versions_and_of_podman() {
    let version_1 = r#"{"read":"2026-11-21T04:00:00.5Z","preread":"0001-01-01T00:00:00Z","pids_stats":{"current":3},"blkio_stats":{"io_service_bytes_recursive":[{"major":8,"minor":0,"op":"Read","value":10},{"major":8,"minor":0,"op":"Write","value":20},{"major":8,"minor":0,"op":"Total","value":30},{"major":8,"minor":16,"op":"Read","value":5}],"io_serviced_recursive":[]},"num_procs":0,"storage_stats":{},"cpu_stats":{"cpu_usage":{"total_usage":1000000000,"percpu_usage":[1,2],"usage_in_kernelmode":0,"usage_in_usermode":0},"system_cpu_usage":7,"online_cpus":2,"throttling_data":{"periods":0,"throttled_periods":0,"throttled_time":0}},"precpu_stats":{"cpu_usage":{"total_usage":0}},"memory_stats":{"usage":3000,"max_usage":4000,"stats":{"inactive_file":1,"total_inactive_file":1000},"limit":9000},"name":"/x","id":"c0ffee"}"#;
    let later = version_1
        .replace("04:00:00.5Z", "04:00:02.5Z")
        .replace("1000000000", "4000000000");
    let ended = r#"{"read":"0001-01-01T00:00:00Z","preread":"2026-11-21T04:00:02.5Z","pids_stats":{},"blkio_stats":{},"cpu_stats":{"cpu_usage":{"total_usage":0}},"memory_stats":{},"name":"/x","id":"c0ffee"}"#;
    // The stream goes on after the end, and nobody reads on.
    let samples = samples_of(&format!(
        "{version_1}\n{later}\n{ended}\n{ended}\n{version_1}\n"
    ))
    .await;
    assert_eq!(samples.len(), 2, "{samples:?}");
    let first = &samples[0];
    assert_eq!(first.cpu_time, Some(Duration::from_secs(1)));
    assert_eq!((first.cpus_used, samples[1].cpus_used), (None, Some(1.5)));
    assert_eq!(first.memory_bytes, Some(2000));
    assert_eq!(
        (first.read_bytes, first.written_bytes, first.pids),
        (Some(15), Some(20), Some(3))
    );

    let version_2 = r#"{"read":"2026-11-21T04:00:00Z","pids_stats":{"current":1,"limit":99},"blkio_stats":{"io_service_bytes_recursive":null},"cpu_stats":{"cpu_usage":{"total_usage":5}},"memory_stats":{"usage":3000,"stats":{"inactive_file":1000},"limit":9000}}"#;
    let samples = samples_of(version_2).await;
    let first = &samples[0];
    assert_eq!(first.memory_bytes, Some(2000));
    assert_eq!((first.read_bytes, first.written_bytes), (None, None));

    let podman = r#"{"read":"2026-11-21T05:00:00.123456789+01:00","preread":"2026-11-21T05:00:00.0+01:00","pids_stats":{"current":1},"blkio_stats":{"io_service_bytes_recursive":[],"io_serviced_recursive":null},"num_procs":0,"storage_stats":{},"cpu_stats":{"cpu_usage":{"total_usage":5000,"usage_in_kernelmode":1,"usage_in_usermode":4},"cpu":12.5,"online_cpus":0,"throttling_data":{"periods":0,"throttled_periods":0,"throttled_time":0}},"precpu_stats":{"cpu_usage":{"total_usage":0,"usage_in_kernelmode":0,"usage_in_usermode":0},"throttling_data":{}},"memory_stats":{"usage":3000,"max_usage":9000,"limit":9000},"name":"x","Id":"c0ffee","networks":null}"#;
    let samples = samples_of(&format!("{podman}\n{podman}\n")).await;
    assert_eq!(samples.len(), 2);
    assert_eq!(samples[0].memory_bytes, Some(3000));
    assert_eq!(samples[0].read_bytes, None);
    // No time has passed between the two, so nothing can be said.
    assert_eq!(samples[1].cpus_used, None);
}

#[tokio::test]
async fn removal_waits_for_a_removal_under_way_and_takes_gone_for_done() {
    for reply in [
        json(
            "DELETE /containers/c0ffee",
            "404 Not Found",
            r#"{"message":"No such container"}"#,
        ),
        json("DELETE /containers/c0ffee", "204 No Content", ""),
        // What has just ended is removed at the second try.
        json(
            "DELETE /containers/c0ffee",
            "500 Internal Server Error",
            r#"{"message":"cannot remove container c0ffee as it could not be stopped: sending SIGKILL to container c0ffee: container state improper: stopped"}"#,
        )
        .once(),
    ] {
        let served = Canned::serve(vec![reply]);
        let engine = served.connect().await;
        let container = engine.create(&spec()).await.unwrap();
        assert_eq!(engine.live_containers(), ["c0ffee"]);
        container.remove().await.unwrap();
        assert_eq!(engine.live_containers(), Vec::<String>::new());
    }
    // What cannot be removed stays known.
    let served = Canned::serve(vec![json(
        "DELETE /containers/c0ffee",
        "500 Internal Server Error",
        r#"{"message":"driver failed to remove root filesystem"}"#,
    )]);
    let engine = served.connect().await;
    let container = engine.create(&spec()).await.unwrap();
    let error = container.remove().await.unwrap_err();
    assert!(
        matches!(&error, Error::Failed(failure) if failure.operation == "remove container"),
        "{error:?}"
    );
    assert_eq!(engine.live_containers(), ["c0ffee"]);
    assert!(engine.cleanup().await.is_err());
}
