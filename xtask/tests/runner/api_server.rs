//! A small Kubernetes for tests: the paths of the API that a session uses, and a kubelet that runs each
//! container's command as a process of this machine.

use std::{
    collections::BTreeMap,
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{Arc, Mutex, MutexGuard},
    thread,
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

/// What goes wrong there.
#[derive(Default)]
pub(crate) struct Faults {
    /// What creating a Job is answered with.
    pub(crate) refuses: Option<(u16, &'static str)>,
    /// The image that cannot be pulled, and the kubelet's words.
    pub(crate) no_image: Option<(&'static str, &'static str)>,
    pub(crate) no_node: Option<&'static str>,
    /// What is answered with the status 500: `configmaps` or `log`.
    pub(crate) fails: Option<&'static str>,
    /// Replaces the first word by the second in containers' logs.
    pub(crate) spoils: Option<(&'static str, &'static str)>,
}

#[derive(Default)]
struct World {
    faults: Faults,
    jobs: BTreeMap<String, Value>,
    pods: BTreeMap<String, Value>,
    maps: BTreeMap<String, Value>,
    logs: BTreeMap<(String, String), String>,
    running: BTreeMap<String, Child>,
    count: u32,
}

#[derive(Clone)]
pub(crate) struct ApiServer {
    world: Arc<Mutex<World>>,
    folder: PathBuf,
}

impl ApiServer {
    /// With `kubeconfig` and Pods' files in this folder.
    pub(crate) fn start(folder: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let text = format!(
            "apiVersion: v1\nkind: Config\nclusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
             users: [{{name: u, user: {{token: t}}}}]\ncurrent-context: x\n\
             contexts: [{{name: x, context: {{cluster: c, user: u, namespace: tests}}}}]\n"
        );
        fs::write(folder.join("kubeconfig"), text).expect("the kubeconfig is written");
        let server = Self {
            world: Arc::default(),
            folder: folder.to_owned(),
        };
        let serving = server.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = serving.clone();
                thread::spawn(move || server.answer(&stream));
            }
        });
        server
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no test has panicked")
    }

    pub(crate) fn faults(&self, faults: Faults) {
        self.world().faults = faults;
    }

    /// Everything that is there, by its name.
    pub(crate) fn left(&self) -> Vec<String> {
        let world = self.world();
        let all = world
            .jobs
            .keys()
            .chain(world.pods.keys())
            .chain(world.maps.keys());
        all.cloned().collect()
    }

    pub(crate) fn jobs(&self) -> Vec<Value> {
        self.world().jobs.values().cloned().collect()
    }

    /// How many Jobs there ever were.
    pub(crate) fn count(&self) -> u32 {
        self.world().count
    }

    /// Whether every Pod came to its end.
    pub(crate) fn has_ended(&self) -> bool {
        let world = self.world();
        let mut pods = world.pods.values();
        world.pods.len() == world.jobs.len()
            && !world.pods.is_empty()
            && pods.all(|pod| pod["status"]["phase"] == "Succeeded")
    }

    pub(crate) fn delete(&self, job: &str) {
        let mut world = self.world();
        world.jobs.remove(job);
        world.maps.remove(job);
        world.pods.remove(job);
        if let Some(mut child) = world.running.remove(job) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn answer(&self, mut stream: &TcpStream) {
        let mut reader = BufReader::new(stream);
        let (mut line, mut length) = (String::new(), 0);
        if reader.read_line(&mut line).is_err() {
            return;
        }
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        loop {
            let mut header = String::new();
            if reader.read_line(&mut header).is_err() || header.trim().is_empty() {
                break;
            }
            if let Some((name, value)) = header.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                length = value.trim().parse().expect("a length");
            }
        }
        let mut body = vec![0; length];
        if words.len() < 2 || reader.read_exact(&mut body).is_err() {
            return;
        }
        let (code, text) = self.of(&words[0], &words[1], &body);
        let answer = format!(
            "HTTP/1.1 {code} x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{text}",
            text.len()
        );
        let _ = stream.write_all(answer.as_bytes());
    }

    fn of(&self, method: &str, target: &str, body: &[u8]) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let words: Vec<&str> = path.split('/').collect();
        let at = words
            .iter()
            .position(|word| *word == "namespaces")
            .map_or(0, |at| at + 1);
        let [namespace, kind, rest @ ..] = &words[at..] else {
            return status(404, "no such path");
        };
        if *namespace != "tests" {
            return status(404, &format!("namespaces \"{namespace}\" not found"));
        }
        let name = rest.first().copied().unwrap_or_default();
        let listed = |all: &BTreeMap<String, Value>, kind: &str| {
            let items: Vec<&Value> = all.values().collect();
            (
                200,
                json!({"kind": kind, "apiVersion": "v1", "metadata": {}, "items": items})
                    .to_string(),
            )
        };
        let fails = self.world().faults.fails;
        if fails.is_some() && (fails == Some(*kind) || fails == rest.get(1).copied()) {
            return status(500, "out of order");
        }
        match (method, *kind) {
            ("GET", "jobs") => listed(&self.world().jobs, "JobList"),
            ("GET", "pods") if rest.get(1) == Some(&"log") => {
                let container = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("container="));
                let world = self.world();
                let key = (name.to_owned(), container.unwrap_or_default().to_owned());
                let mut log = world.logs.get(&key).cloned().unwrap_or_default();
                if let Some((from, to)) = world.faults.spoils {
                    log = log.replacen(from, to, 1);
                }
                (200, log)
            }
            ("GET", "pods") => listed(&self.world().pods, "PodList"),
            ("GET", "events") => listed(&BTreeMap::new(), "EventList"),
            ("POST", "jobs") => self.create(body),
            ("POST", "configmaps") => {
                let map: Value = serde_json::from_slice(body).expect("a ConfigMap");
                self.world()
                    .maps
                    .insert(text(&map["metadata"]["name"]), map.clone());
                (201, map.to_string())
            }
            ("DELETE", "jobs") => {
                self.delete(name);
                status(200, "deleted")
            }
            _ => status(404, "no such path"),
        }
    }

    fn create(&self, body: &[u8]) -> (u16, String) {
        let mut job: Value = serde_json::from_slice(body).expect("a Job");
        let name = text(&job["metadata"]["name"]);
        let mut world = self.world();
        if let Some((code, message)) = world.faults.refuses {
            return status(code, message);
        }
        if world.jobs.contains_key(&name) {
            return status(409, "already exists");
        }
        world.count += 1;
        let uid = format!("uid-{}", world.count);
        job["metadata"]["uid"] = json!(uid);
        world.jobs.insert(name.clone(), job.clone());
        let server = self.clone();
        let begun = job.clone();
        thread::spawn(move || server.kubelet(&name, &uid, &begun));
        (201, job.to_string())
    }

    /// Carries a Job's Pod out, as long as both are there.
    fn kubelet(&self, name: &str, uid: &str, job: &Value) {
        let spec = job["spec"]["template"]["spec"].clone();
        let folder = self.folder.join(uid);
        fs::create_dir_all(&folder).expect("the Pod's folder");
        let mut status = json!({"phase": "Pending", "initContainerStatuses": []});
        let show = |status: &Value| {
            let mut world = self.world();
            let is_there = world
                .jobs
                .get(name)
                .is_some_and(|job| job["metadata"]["uid"] == uid);
            if is_there {
                let owner =
                    json!([{"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": uid}]);
                let mut spec = spec.clone();
                spec["nodeName"] = json!("node1");
                let metadata = json!({"name": name, "namespace": "tests", "uid": uid, "ownerReferences": owner});
                world.pods.insert(
                    name.to_owned(),
                    json!({"metadata": metadata, "spec": spec, "status": status}),
                );
            }
            is_there
        };
        let no_node = self.world().faults.no_node;
        if let Some(message) = no_node {
            status["conditions"] = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}]);
            show(&status);
            return;
        }
        let map = loop {
            if let Some(map) = self.world().maps.get(name) {
                break map["binaryData"].clone();
            }
            thread::sleep(Duration::from_millis(20));
        };
        for (name, content) in map.as_object().expect("files") {
            let content = BASE64_STANDARD.decode(text(content)).expect("base64");
            fs::write(folder.join(name), content).expect("the part is written");
        }
        fs::create_dir(folder.join("files")).expect("a volume");
        let containers = spec["initContainers"].as_array().into_iter().flatten();
        for container in containers.chain(spec["containers"].as_array().into_iter().flatten()) {
            let state = |state: Value| {
                json!({"name": container["name"], "image": container["image"], "imageID": "", "ready": false,
                    "restartCount": 0, "state": state})
            };
            let at = status["initContainerStatuses"]
                .as_array()
                .map_or(0, Vec::len);
            let fault = self.world().faults.no_image;
            if let Some((_, said)) =
                fault.filter(|(image, _)| text(&container["image"]).contains(image))
            {
                as_array(&mut status).push(state(
                    json!({"waiting": {"reason": "ErrImagePull", "message": said}}),
                ));
                show(&status);
                return;
            }
            as_array(&mut status).push(state(json!({"running": {}})));
            if !show(&status) {
                return;
            }
            let Some((log, code)) = self.run(name, container, &folder) else {
                return;
            };
            let key = (name.to_owned(), text(&container["name"]));
            self.world().logs.insert(key, log);
            status["initContainerStatuses"][at] = state(json!({"terminated": {"exitCode": code}}));
            if code != 0 {
                status["phase"] = json!("Failed");
                show(&status);
                return;
            }
        }
        status["phase"] = json!("Succeeded");
        show(&status);
    }

    /// A container's command in the Pod's folder; `None` where the Job was deleted meanwhile.
    fn run(&self, name: &str, container: &Value, folder: &Path) -> Option<(String, i32)> {
        let here = folder.display().to_string();
        let local = |word: &Value| {
            let word = text(word);
            if word == "/files" {
                return format!("{here}{word}");
            }
            word.replace("/program", &here)
                .replace("/torchgauge", &here)
                .replace("/part/", &format!("{here}/"))
        };
        let words = container["command"].as_array().expect("a command");
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        for mount in mounts.filter(|mount| !mount["subPath"].is_null()) {
            let target = text(&mount["mountPath"]);
            assert!(target.starts_with("/tmp"), "{target} is this machine's");
            let _ = fs::remove_file(&target);
            let source = folder.join("files").join(text(&mount["subPath"]));
            std::os::unix::fs::symlink(source, target).expect("a mount");
        }
        let log = folder.join(text(&container["name"]));
        let output = fs::File::create(&log).expect("a log");
        let mut command = Command::new(env!("CARGO_BIN_EXE_torchgauge"));
        command
            .args(words[1..].iter().map(local))
            // A Pod has no checkout.
            .env_remove("CARGO_MANIFEST_DIR")
            .env("KUBERNETES_PORT", "of the kubelet's")
            .current_dir(folder);
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = if variable["value"].is_null() {
                "node1".to_owned()
            } else {
                local(&variable["value"])
            };
            command.env(text(&variable["name"]), value);
        }
        command
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(Stdio::null());
        let child = command.spawn().expect("torchgauge starts");
        self.world().running.insert(name.to_owned(), child);
        loop {
            let mut world = self.world();
            let ended = world.running.get_mut(name)?.try_wait().expect("a child");
            if let Some(status) = ended {
                world.running.remove(name);
                let said = fs::read_to_string(&log).expect("a log");
                return Some((said, status.code().unwrap_or(137)));
            }
            drop(world);
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn as_array(status: &mut Value) -> &mut Vec<Value> {
    status["initContainerStatuses"]
        .as_array_mut()
        .expect("a list")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn status(code: u16, message: &str) -> (u16, String) {
    let word = if code < 300 { "Success" } else { "Failure" };
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": word, "message": message, "code": code});
    (code, status.to_string())
}
