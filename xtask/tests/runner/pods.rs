//! Programs of the user's in Pods: on the small Kubernetes of the tests' own, whose containers are
//! this machine with its Python, and a torch that is none.

use std::{fs, os::unix::fs::symlink, path::Path};

use record::Outcome;

use crate::{
    api_server::{ApiServer, Faults},
    apptainer::{NEW, OLD, folder},
    kubernetes::{Cluster, IMAGES},
    python_image::{make_image, python},
    support::{Home, Running},
};

/// Written as users write it: it knows nothing of Torchgauge.
const LOOP: &str = "
import os, sys, time
import torch
print(sorted(name for name in os.environ if name.startswith(('KUBERNETES_', 'TORCHGAUGE_'))))
print(os.environ['HOME'], os.environ['USER'], open('/proc/self/comm').read())
rank = int(os.environ.get('RANK', 0))
sys.stdout.flush()
optimizer = torch.optim.SGD([torch.Parameter()])
for _ in range(100000):
    time.sleep(0.01 * (1 + rank))
    optimizer.step()
";

/// The same, which also says where it is.
const PLACE: &str = "
import os, sys, time
import torch
print(os.getuid(), os.getcwd(), os.environ['PYTHONPATH'].endswith(':/opt/site'), os.listdir('/own'))
for folder in ('/workspace', '/opt', '/own'):
    try:
        open(folder + '/written', 'w').close()
        print('wrote', folder)
    except OSError as error:
        print(error)
sys.stdout.flush()
optimizer = torch.optim.SGD([torch.Parameter()])
for step in range(100000):
    time.sleep(float(os.environ['STEP']) * (100 if step == 0 else 1))
    optimizer.step()
";

impl Home {
    /// A session of the folder `src`, which is mounted, with these words before the command.
    fn in_pods(&self, name: &str, words: &str, command: &str) -> Running {
        let file = self.path("profile.yaml");
        fs::write(&file, "version: 1\nprogram: r.example/torchgauge\n").expect("a profile");
        let torch = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/python/tests/fake");
        let torch = torch.canonicalize().expect("a torch that is none");
        let line = format!(
            "exec env -u CARGO_MANIFEST_DIR KUBECONFIG={} cargo xtask bench --device cpu \
             --engine kubernetes:{} --out {} --image {} --env PYTHONPATH={} \
             --mount {}:{} {words} -- {command}",
            self.path("kubeconfig").display(),
            file.display(),
            self.path(name).display(),
            IMAGES[0],
            torch.display(),
            self.path("src").display(),
            self.path("mounted").display(),
        );
        self.shell(name, &line)
    }

    fn mounted(&self, text: &str) -> String {
        let _ = fs::create_dir(self.path("src"));
        fs::write(self.path("src/train.py"), text).expect("a script");
        format!("{} {}", python().0, self.path("mounted/train.py").display())
    }
}

#[test]
fn a_script_is_measured_in_pods_as_in_containers() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let command = home.mounted(LOOP);
    // Of a folder that is mounted, no session comes along, and no link is followed.
    fs::create_dir(home.path("src/s")).expect("a folder");
    fs::write(home.path("src/s/session.json"), "{}").expect("a session");
    symlink("/etc/passwd", home.path("src/link")).expect("a link");
    let words = format!(
        "--image {} --blocks 1 --steps 5 --ranks 2 --samples-per-step 8 --user 7 --workdir /opt \
         --mount {}:{}:rw",
        IMAGES[1],
        home.path("src").display(),
        home.path("own").display()
    );
    let text = home.in_pods("s", &words, &command).ends_with(0);
    assert!(text.contains("block 0 on node1 is done"), "{text}");
    assert_eq!(server.left(), [""; 0]);
    let (session, records) = home.read("s");
    assert!(session.complete);
    assert_eq!(records.len(), 2);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok);
        assert_eq!(record.isolation.engine, "process");
        assert!(record.isolation.missing.contains(&"network".to_owned()));
        assert_eq!(record.ranks.len(), 2);
        assert_eq!(record.value("steps_count"), Some(5.0));
        assert!(record.value("throughput_samples_per_second").is_some());
        let warnings = record.warnings.join("\n");
        for expected in ["`user: 7` not applied", "`network: none` not applied"] {
            assert!(warnings.contains(expected), "{warnings}");
        }
        let said = home.said("s", record);
        assert!(said.contains("/tmp torchgauge"), "{said}");
        // The hook's, and whose run it is: none of the Job's, and none of Kubernetes'.
        let own =
            "['TORCHGAUGE_EVENTS', 'TORCHGAUGE_PROCESS', 'TORCHGAUGE_RUN', 'TORCHGAUGE_RUN_FOLDER'";
        assert!(said.contains(own), "{said}");
    }
}

#[test]
fn a_job_mounts_a_program_s_files_and_starts_it_in_its_image_s_folder() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    server.faults(Faults {
        no_node: Some("0/1 nodes are available"),
        ..Faults::default()
    });
    let command = home.mounted(LOOP);
    let words = format!("--mount {}:/work:rw", home.path("src/train.py").display());
    let running = home.in_pods("s", &words, &command);
    crate::support::until(|| !server.jobs().is_empty());
    let pod = server.jobs()[0]["spec"]["template"]["spec"].clone();
    running.signal(rustix::process::Signal::INT);
    running.ends_with(3);
    let first = &pod["initContainers"][0];
    let words = first["command"].as_array().expect("a command");
    assert_eq!(words.last().expect("a copy"), "1:run-0000-1");
    let run = &pod["containers"][0];
    assert!(run["workingDir"].is_null(), "{run}");
    let mounts = run["volumeMounts"].as_array().expect("mounts");
    let files = mounts.iter().filter(|mount| mount["name"] == "files");
    let files: Vec<String> = files
        .map(|mount| format!("{} {}", mount["subPath"], mount["readOnly"]))
        .collect();
    assert_eq!(files, ["\"0\" true", "\"run-0000-1\" false"]);
}

#[test]
fn what_pods_cannot_do_is_refused_before_there_is_a_job() {
    let home = Home::new();
    let server = ApiServer::start(&home.path(""));
    let command = home.mounted(LOOP);
    fs::write(home.path("secrets"), "A=1\n").expect("a file");
    // It does not pack any smaller.
    let mut state = 1_u64;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state.to_be_bytes()[0]
    });
    let noise: Vec<u8> = noise.take(3 << 19).collect();
    fs::write(home.path("noise"), noise).expect("a file");
    let secrets = format!("--env-file {}", home.path("secrets").display());
    let large = format!("--mount {}:/data", home.path("noise").display());
    let none = format!("--mount {}:/data", home.path("none").display());
    let own = format!("--mount {}:/torchgauge", home.path("src").display());
    for (name, words, expected) in [
        ("a", secrets, "a Pod takes no variables of files"),
        ("b", large, "or bring it in the image"),
        ("c", none, "there is no"),
        ("d", own, "mount to another target"),
    ] {
        let text = home.in_pods(name, &words, &command).ends_with(2);
        assert!(text.contains(expected), "{text}");
        assert_eq!(server.count(), 0, "{name}");
    }
}

#[test]
fn what_goes_wrong_in_a_pod_has_its_name() {
    let home = Home::new();
    let _server = ApiServer::start(&home.path(""));
    home.mounted(LOOP);
    let python = python().0;
    let own = |body: &str| format!("{python} -c '{body}'");
    let sleep = own("import time; time.sleep(600)");
    for (name, words, command, reason, message) in [
        (
            "a",
            "",
            "/no/python x.py".to_owned(),
            "image-broken",
            "give a program's whole command",
        ),
        (
            "b",
            "",
            own("import os; os.kill(os.getpid(), 9)"),
            "crash",
            "SIGKILL",
        ),
        (
            "c",
            "",
            own("import sys; sys.exit(7)"),
            "exit-status",
            "status 7",
        ),
        ("d", "--time-limit 2s", sleep, "time-limit", "limits.time"),
        (
            "e",
            "",
            own("raise KeyError(3)"),
            "exit-status",
            "KeyError: 3",
        ),
    ] {
        let words = format!("{words} --blocks 1");
        home.in_pods(name, &words, &command).ends_with(3);
        let failure = home.read(name).1[0].outcome.failure().cloned();
        let failure = failure.expect("a failure");
        assert_eq!(failure.reason.word(), reason, "{name}: {failure:?}");
        assert!(failure.message.contains(message), "{name}: {failure:?}");
    }
    // One that reports nothing is measured from outside.
    home.in_pods("f", "--blocks 1", &own("1")).ends_with(0);
    let record = &home.read("f").1[0];
    assert!(record.value("program_seconds").is_some());
}

/// Two images with this machine's Python, in one of which a step takes twice as long.
pub(crate) fn on_the_real_cluster(cluster: &Cluster) {
    let home = Home::new();
    home.mounted(PLACE);
    let image = |(name, step): (&str, &str)| {
        let tag = format!("10.213.0.2:5000/tests/{name}:1");
        make_image(&tag, "2.99.0+fake", &[step]);
        format!("--image {}", cluster.push(&tag))
    };
    let images = [("old", "ENV STEP=0.02"), ("new", "ENV STEP=0.04")].map(image);
    fs::write(home.path("profile.yaml"), cluster.profile()).expect("a profile");
    let line = format!(
        "exec env -u CARGO_MANIFEST_DIR KUBECONFIG={} cargo xtask bench --device cpu \
         --engine kubernetes:{} --out {} {} --blocks 3 --steps 10 --ranks 2 --samples-per-step 8 \
         --mount {src}:/workspace --mount {src}/train.py:/own/train.py:rw \
         -- {} /workspace/train.py",
        cluster.config().display(),
        home.path("profile.yaml").display(),
        home.path("s").display(),
        images.join(" "),
        python().0,
        src = home.path("src").display(),
    );
    let text = home.shell("s", &line).ends_with(0);
    assert!(text.contains("regressed"), "{text}");
    let (_, records) = home.read("s");
    assert_eq!(records.len(), 6);
    for record in &records {
        assert_eq!(record.outcome, Outcome::Ok, "{}", home.said("s", record));
        assert_eq!(record.value("steps_count"), Some(10.0));
        assert_eq!(record.ranks.len(), 2);
        let said = home.said("s", record);
        // As the Pod's user, in the image's folder, past its entry point.
        assert!(said.starts_with("65532 /opt True ['train.py']"), "{said}");
        assert!(!said.contains("wrote"), "{said}");
    }
    assert_eq!(cluster.left(), "");
    folder();
    let words = format!(
        "--image {OLD} --image {NEW} --blocks 3 --steps 10 --ranks 2 --samples-per-step 8 \
         --mount {src}:/workspace --mount {src}/train.py:/own/train.py:rw",
        src = home.path("src").display(),
    );
    let command = format!("{} /workspace/train.py", python().0);
    home.has_verdicts_of_containers("s", &words, &command);
}
