//! Sessions on Kubernetes: on a small one of the tests' own, and on the real one of `.ci/kubernetes`,
//! whose folder is named by `TORCHGAUGE_TEST_KUBERNETES`. Pods run the mock engine.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

use record::Record;
use rustix::process::Signal;
use serde_json::json;

use crate::{
    api_server::{ApiServer, Faults},
    python_image::{lines, run},
    support::{Home, Running, until},
};

/// Images of the tests' own cluster.
pub(crate) const IMAGES: [&str; 2] = [
    "r.example/team/a@sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "r.example/team/b@sha256:bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb",
];

impl Home {
    fn on_kubernetes(
        &self,
        name: &str,
        kubeconfig: &Path,
        (script, profile): (&str, &str),
        images: &[&str],
    ) -> Running {
        let file = self.path("profile.yaml");
        let program = if profile.contains("program:") {
            ""
        } else {
            "program: r.example/torchgauge\n"
        };
        let text = format!("version: 1\nengine: 'mock:{script}'\n{program}{profile}\n");
        fs::write(&file, text).expect("the profile is written");
        let images: Vec<String> = images
            .iter()
            .map(|image| format!("--image {image}"))
            .collect();
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR KUBECONFIG={} cargo xtask bench --suite {} --engine kubernetes:{} --device cpu --out {} {}",
            kubeconfig.display(),
            self.path("suite.yaml").display(),
            file.display(),
            self.path(name).display(),
            images.join(" ")
        );
        self.shell(name, &line)
    }

    fn resume_on_kubernetes(&self, name: &str, kubeconfig: &Path) -> Running {
        let folder = self.path(name);
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR KUBECONFIG={} cargo xtask bench --resume {}",
            kubeconfig.display(),
            folder.display()
        );
        self.shell(name, &line)
    }
}

/// Each run's attempts, and how the last one ended.
fn attempts(records: &[Record]) -> BTreeMap<u32, (u32, String)> {
    let of = |record: &Record| (record.order, (record.attempt, record.outcome.word()));
    records.iter().map(of).collect()
}

#[test]
fn a_session_is_a_job_for_each_block() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let profile = "gpus: 1\nqueue: team\npriority_class: low\nruntime_class: nvidia\nimage_pull_secrets: [r]\ntime: 10min\n\
        resources: {cpu: 2}\nnode_selector: {gpu: h100}\ntolerations: [{key: gpu, operator: Exists}]\nlabels: {team: x}";
    let config = home.path("kubeconfig");
    let running = home.on_kubernetes("s", &config, ("b0-a=oom;*=sleep:300", profile), &IMAGES);
    until(|| server.jobs().len() == 2);
    let job = server.jobs()[0].clone();
    let text = running.ends_with(3);
    assert!(text.contains("block 1 on node1 is done"), "{text}");
    assert_eq!(server.left(), [""; 0]);
    let (session, records) = home.read("s");
    assert!(session.complete, "a failed run does not end its block");
    let ends: Vec<String> = attempts(&records)
        .into_values()
        .map(|(_, end)| end)
        .collect();
    assert_eq!(
        ends.iter().filter(|end| *end == "out-of-memory").count(),
        1,
        "{ends:?}"
    );
    assert_eq!(
        ends.iter().filter(|end| *end == "ok").count(),
        3,
        "{ends:?}"
    );
    let resumed = session.notes.iter().any(|note| note.contains("cut off"));
    assert!(!resumed, "{:?}", session.notes);

    let pod = &job["spec"]["template"]["spec"];
    assert_eq!(
        job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"],
        "team"
    );
    assert_eq!(job["spec"]["backoffLimit"], 0);
    for (key, value) in [
        ("automountServiceAccountToken", json!(false)),
        ("activeDeadlineSeconds", json!(600)),
        ("priorityClassName", json!("low")),
        ("runtimeClassName", json!("nvidia")),
        ("imagePullSecrets", json!([{"name": "r"}])),
        ("nodeSelector", json!({"gpu": "h100"})),
        ("tolerations", json!([{"key": "gpu", "operator": "Exists"}])),
    ] {
        assert_eq!(pod[key], value, "{key}");
    }
    let of_session = &pod["affinity"];
    assert!(
        of_session.is_null(),
        "blocks with GPUs may share a node: {of_session}"
    );
    assert_eq!(
        pod["securityContext"]["seccompProfile"]["type"],
        "RuntimeDefault"
    );
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    let of = |kind: &str| pod[kind].as_array().expect("containers").clone();
    let all = [of("initContainers"), of("containers")].concat();
    assert_eq!(all.len(), 3, "the program, and a container for each run");
    for (index, container) in all.iter().enumerate() {
        let context = &container["securityContext"];
        assert_eq!(context["readOnlyRootFilesystem"], true);
        assert_eq!(context["allowPrivilegeEscalation"], false);
        assert_eq!(context["capabilities"]["drop"], json!(["ALL"]));
        let program = container["volumeMounts"].as_array().expect("mounts");
        let program = program.iter().find(|one| one["name"] == "program");
        let is_kept = program.expect("the program")["readOnly"] == true;
        assert_eq!(is_kept, index > 0, "no image may change the program");
        let gpus = &container["resources"]["limits"]["nvidia.com/gpu"];
        assert_eq!(gpus.is_null(), index == 0, "{gpus}");
    }
}

#[test]
fn a_submitter_that_is_killed_loses_no_pod() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let config = home.path("kubeconfig");
    let running = home.on_kubernetes("s", &config, ("*=sleep:2500", ""), &IMAGES);
    running.until_records(2);
    running.signal(Signal::KILL);
    assert_eq!(server.jobs().len(), 2);
    home.resume_on_kubernetes("s", &config).ends_with(0);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 4, "{:?}", attempts(&records));
    assert_eq!(server.left(), [""; 0]);
}

#[test]
fn ctrl_c_deletes_the_jobs_and_leaves_nothing() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let config = home.path("kubeconfig");
    let running = home.on_kubernetes("s", &config, ("b1=sleep:60000", ""), &IMAGES);
    running.until_records(2);
    running.signal(Signal::INT);
    let text = running.ends_with(3);
    assert!(text.contains("2 runs are still to do"), "{text}");
    assert_eq!(server.left(), [""; 0]);
    assert_eq!(home.read("s").1.len(), 2);
}

/// A session with this profile on a cluster where this goes wrong ends so, and leaves nothing there.
#[track_caller]
fn ends(
    (home, server): (&Home, &ApiServer),
    name: &str,
    (profile, images): (&str, &[&str]),
    faults: Faults,
    (code, expected): (i32, &str),
) {
    server.faults(faults);
    let config = home.path("kubeconfig");
    let running = home.on_kubernetes(name, &config, ("", profile), images);
    let text = running.ends_with(code);
    assert!(text.contains(expected), "{text}");
    assert_eq!(server.left(), [""; 0]);
}

#[test]
fn what_a_cluster_refuses_names_the_next_step_and_leaves_nothing() {
    let home = Home::new();
    let at = (&home, &ApiServer::start(&home.path("")));
    let forbidden = "jobs.batch is forbidden: User \"nobody\" cannot create resource \"jobs\"";
    let quota =
        "jobs.batch \"x\" is forbidden: exceeded quota: team, requested: count/jobs.batch=1";
    for (name, said, expected) in [
        ("a", forbidden, "cannot create resource \"jobs\"; profile"),
        ("b", quota, "the quota of the `namespace` is used up"),
    ] {
        let faults = Faults {
            refuses: Some((403, said)),
            ..Faults::default()
        };
        ends(at, name, ("", &IMAGES), faults, (2, expected));
    }
    for (name, profile, expected) in [
        ("c", "namespace: nope", "no such `namespace`"),
        ("d", "context: nope", "the profile's `context`"),
        ("e", "namespcae: x", "unknown key `namespcae`"),
    ] {
        let faults = Faults::default();
        ends(at, name, (profile, &IMAGES), faults, (2, expected));
    }
    let tag = ["r.example/team/a:1"];
    let expected = "expected REGISTRY/REPOSITORY@sha256:DIGEST";
    ends(at, "f", ("", &tag), Faults::default(), (2, expected));
}

#[test]
fn a_block_that_a_cluster_cannot_carry_out_says_why_and_goes_on_later() {
    let home = Home::new();
    let at = (&home, &ApiServer::start(&home.path("")));
    let none = Faults::default;
    let no_image = Faults {
        no_image: Some(("team/b", "manifest unknown")),
        ..none()
    };
    let expected = "cannot pull r.example/team/b@sha256";
    ends(at, "image", ("", &IMAGES), no_image, (3, expected));
    let no_node = Faults {
        no_node: Some("0/1 nodes are available: 1 Insufficient nvidia.com/gpu."),
        ..none()
    };
    let (profile, expected) = (
        "start_within: 1s",
        "Insufficient nvidia.com/gpu.: not within 1 s",
    );
    ends(at, "node", (profile, &IMAGES), no_node, (3, expected));
    for (name, spoils, expected) in [
        (
            "cut",
            ("parcel sha256", "parcel"),
            "its results are cut off",
        ),
        (
            "changed",
            ("parcel + H", "parcel + I"),
            "but were sent with",
        ),
    ] {
        let spoils = Faults {
            spoils: Some(spoils),
            ..none()
        };
        ends(at, name, ("", &IMAGES[..1]), spoils, (3, expected));
    }
    at.1.faults(none());
    home.resume_on_kubernetes("changed", &home.path("kubeconfig"))
        .ends_with(0);
    assert!(home.read("changed").0.complete);
}

#[test]
fn a_job_that_somebody_deletes_is_named_and_goes_on_later() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let config = home.path("kubeconfig");
    let running = home.on_kubernetes("s", &config, ("b1=sleep:4000", ""), &IMAGES);
    running.until_records(2);
    let jobs = server.jobs();
    let second = jobs
        .iter()
        .find(|job| job["metadata"]["labels"]["torchgauge/block"] == "1");
    let second = second.and_then(|job| job["metadata"]["name"].as_str());
    server.delete(second.expect("the second block's Job"));
    let text = running.ends_with(3);
    assert!(text.contains("block 1 lost its Job"), "{text}");
    home.resume_on_kubernetes("s", &config).ends_with(0);
    assert_eq!(home.read("s").1.len(), 4);
}

#[test]
fn what_fails_for_a_while_loses_nothing() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let config = home.path("kubeconfig");
    let fails = |what| Faults {
        fails: Some(what),
        ..Faults::default()
    };
    // Logs, which hold results, longer than a damaged one is asked for again.
    server.faults(fails("log"));
    let running = home.on_kubernetes("log", &config, ("", ""), &IMAGES);
    until(|| server.has_ended());
    thread::sleep(Duration::from_secs(12));
    assert_eq!(server.jobs().len(), 2);
    server.faults(Faults::default());
    running.ends_with(0);
    assert_eq!(home.read("log").1.len(), 4);
    assert_eq!(server.left(), [""; 0]);

    // The part of a Job that is there: its Pod waits for it, and gets it from whoever resumes.
    server.faults(fails("configmaps"));
    let running = home.on_kubernetes("part", &config, ("", ""), &IMAGES);
    let text = running.ends_with(4);
    assert!(text.contains("out of order"), "{text}");
    assert_eq!(server.jobs().len(), 1);
    server.faults(Faults::default());
    home.resume_on_kubernetes("part", &config).ends_with(0);
    assert_eq!(home.read("part").1.len(), 4);
    assert_eq!(server.left(), [""; 0]);
}

/// The real cluster.
pub(crate) struct Cluster {
    folder: PathBuf,
    /// `torchgauge` in an image, and two without it.
    program: String,
    images: [String; 2],
}

impl Cluster {
    /// With images that a registry there has.
    fn find() -> Self {
        let folder = env::var_os("TORCHGAUGE_TEST_KUBERNETES").map(PathBuf::from);
        let folder =
            folder.expect("TORCHGAUGE_TEST_KUBERNETES is the folder that `.ci/kubernetes` printed");
        let work = tempfile::tempdir().expect("a folder");
        let base = work.path().join("base.tar");
        let (code, text) =
            crate::support::xtask(&["images", "base", "--to", &base.display().to_string()]);
        assert_eq!(code, 0, "{text}");
        let push = |name: &str, program: &str| {
            let script = format!(
                "set -e; cd {work}; image=10.213.0.2:5000/tests/{name}:1; cp base.tar {name}.tar\n\
                 [ -z '{program}' ] || {{ mkdir -p opt/bin; cp {program} opt/bin/torchgauge; tar -rf {name}.tar opt/bin; }}\n\
                 docker() {{ command docker -H unix://{socket}/docker.sock \"$@\"; }}\n\
                 docker import -c 'ENV PATH=/opt/bin:/usr/bin:/bin' -c 'LABEL name={name}' {name}.tar $image >/dev/null\n\
                 docker push -q $image >/dev/null; docker inspect -f '{{{{index .RepoDigests 0}}}}' $image",
                work = work.path().display(),
                socket = folder.display()
            );
            let output = Command::new("bash")
                .args(["-c", &script])
                .output()
                .expect("bash runs");
            assert!(
                output.status.success(),
                "{}",
                String::from_utf8_lossy(&output.stderr)
            );
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        };
        Self {
            program: push("program", env!("CARGO_BIN_EXE_torchgauge")),
            images: [push("a", ""), push("b", "")],
            folder,
        }
    }

    fn bench(&self, home: &Home, name: &str, script: &str, profile: &str) -> Running {
        let profile = format!("program: {}\n{profile}", self.program);
        let images = self.images.each_ref().map(String::as_str);
        home.on_kubernetes(name, &self.config(), (script, &profile), &images)
    }

    pub(crate) fn config(&self) -> PathBuf {
        self.folder.join("kubeconfig")
    }

    pub(crate) fn profile(&self) -> String {
        format!("version: 1\nprogram: {}\n", self.program)
    }

    /// Has its registry have an image of this machine's engine; by its digest.
    pub(crate) fn push(&self, tag: &str) -> String {
        let script = format!(
            "set -e; docker save {tag} | docker -H unix://{socket}/docker.sock load >/dev/null; docker rmi {tag} >/dev/null\n\
             docker() {{ command docker -H unix://{socket}/docker.sock \"$@\"; }}\n\
             docker push -q {tag} >/dev/null; docker inspect -f '{{{{index .RepoDigests 0}}}}' {tag}",
            socket = self.folder.display()
        );
        lines(&run("bash", &["-c", &script])).remove(0)
    }

    /// What of all sessions is there.
    pub(crate) fn left(&self) -> String {
        self.kubectl(&[
            "get",
            "jobs,pods,configmaps",
            "--selector=torchgauge/session",
            "--output=name",
        ])
    }

    fn kubectl(&self, words: &[&str]) -> String {
        let own = "/var/cache/torchgauge-k8s/programs/kubectl";
        let kubectl = if Path::new(own).exists() {
            own
        } else {
            "kubectl"
        };
        let output = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(self.config())
            .args(words)
            .output();
        let output = output.expect("kubectl runs");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    /// The GPU that the kubelet gave each container of each Pod.
    fn gpus() -> BTreeMap<String, Vec<String>> {
        let text =
            fs::read_to_string("/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint");
        let all: serde_json::Value =
            serde_json::from_str(&text.expect("the kubelet's notes")).expect("JSON");
        let mut gpus: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for entry in all["Data"]["PodDeviceEntries"]
            .as_array()
            .into_iter()
            .flatten()
        {
            let of = gpus.entry(entry["PodUID"].to_string()).or_default();
            of.push(entry["DeviceIDs"].to_string());
        }
        gpus
    }
}

/// One test, for all of it has one node.
#[test]
#[ignore = "needs the cluster of `.ci/kubernetes`"]
fn on_a_real_cluster() {
    let cluster = Cluster::find();
    crate::pods::on_the_real_cluster(&cluster);
    let home = Home::new();
    // Two images in one Pod, on one GPU; a run that fails does not end its block.
    let running = cluster.bench(&home, "s", "b0-a=oom;*=sleep:4000", "gpus: 1");
    running.until_records(1);
    let gpus = Cluster::gpus();
    assert_eq!(gpus.len(), 2, "{gpus:?}");
    for of_pod in gpus.values() {
        assert_eq!(of_pod.len(), 2, "{gpus:?}");
        assert_eq!(
            of_pod[0], of_pod[1],
            "runs of one block have one GPU: {gpus:?}"
        );
    }
    running.ends_with(3);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(session.machine_names(), "node1");
    let ends = attempts(&records)
        .into_values()
        .filter(|(_, end)| end == "ok")
        .count();
    assert_eq!((ends, records.len()), (3, 4));
    assert_eq!(cluster.left(), "");

    let running = cluster.bench(&home, "killed", "*=sleep:5000", "gpus: 1");
    running.until_records(1);
    running.signal(Signal::KILL);
    home.resume_on_kubernetes("killed", &cluster.config())
        .ends_with(0);
    let records = home.read("killed").1;
    assert_eq!(records.len(), 4, "{:?}", attempts(&records));
    assert_eq!(cluster.left(), "");

    // On CPUs, one block after the other.
    let script = "b1=sleep:600000;*=sleep:3000";
    let running = cluster.bench(&home, "cancelled", script, "");
    running.until_records(1);
    let nodes = cluster.kubectl(&["get", "pods", "--output=jsonpath={.items[*].spec.nodeName}"]);
    assert_eq!(nodes, "node1");
    running.until_records(2);
    running.signal(Signal::INT);
    running.ends_with(3);
    assert_eq!(cluster.left(), "");

    for (name, profile, code, expected) in [
        (
            "nobody",
            "context: nobody",
            2,
            "cannot list resource \"jobs\"",
        ),
        ("namespace", "namespace: nope", 2, "no such `namespace`"),
        (
            "three",
            "gpus: 3\nstart_within: 3s",
            3,
            "Insufficient nvidia.com/gpu",
        ),
        (
            "late",
            "time: 8s",
            3,
            "reached its time limit (DeadlineExceeded",
        ),
    ] {
        let text = cluster
            .bench(&home, name, "*=sleep:60000", profile)
            .ends_with(code);
        assert!(text.contains(expected), "{name}: {text}");
        assert_eq!(cluster.left(), "", "{name}");
    }
    let missing = cluster.images[1].replace("tests/b", "tests/none");
    let images = [cluster.images[0].as_str(), &missing];
    let profile = format!("program: {}", cluster.program);
    let running = home.on_kubernetes("pull", &cluster.config(), ("", &profile), &images);
    let text = running.ends_with(3);
    assert!(
        text.contains("cannot pull 10.213.0.2:5000/tests/none@sha256")
            && text.contains("check the reference"),
        "{text}"
    );
    assert_eq!(cluster.left(), "");
}
