//! Blocks whose runs are steps of Slurm's, each in its image by Pyxis: this program carries a run out
//! inside of the image, as in a Pod, for what `srun` starts is no child of the job's script.

use std::{fmt::Write as _, fs, io::Write as _, path::Path};

use record::command_line;

use super::{
    super::{
        ExecutorError, IMAGE_VARIABLE,
        nodes::inside::{self, HOME, PROGRAM},
    },
    queue::{NO_PYXIS, NO_STEP},
};
use crate::{
    host::{LOCK_FOLDERS, LOCKS_VARIABLE, NAME_VARIABLE},
    session::{Due, Part},
};

/// The steps of a part, which its job's script reads.
const STEPS: &str = "steps.sh";
/// What the script says before each step.
const MARK: &str = "torchgauge-step ";
/// What lies around what went wrong: enroot's log, and what followed.
const AROUND: [&str; 5] = ["[INFO]", "child ", "printing enroot", "slurmstepd", "srun"];
/// Variables of the node that steps get. Everything else is of the image and the run.
const VARIABLES: [&str; 14] = [
    IMAGE_VARIABLE,
    NAME_VARIABLE,
    LOCKS_VARIABLE,
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
    // By what follows enroot finds its settings, credentials and registries.
    "HOME",
    "XDG_CONFIG_HOME",
    "ENROOT_CONFIG_PATH",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
];

/// Writes down the steps of a part.
pub(super) fn write_steps(part: &Part) -> Result<(), ExecutorError> {
    inside::check_images(part)?;
    let refused = |message: String| ExecutorError::Argument(message.into());
    let mut text = String::new();
    for run in &part.runs {
        text.push_str(&step(run, &part.folder).map_err(refused)?);
    }
    let file = part.folder.join(STEPS);
    regular_file::replace(&file, |file| file.write_all(text.as_bytes()))
        .map_err(|error| ExecutorError::Unavailable(format!("{}: {error}", file.display()).into()))
}

/// The lines that carry a run out.
fn step(run: &Due, part: &Path) -> Result<String, String> {
    let begin = ["run", &run.name, &run.image].map(str::to_owned);
    let (mut lines, mut mounts) = (command_line(&begin) + "\n", String::new());
    let mut options = vec![format!("--container-image={}", enroot_s(&run.image))];
    let file = run.program.as_ref().map(|program| &program.file);
    let is_writable = file.is_some_and(|file| file.writable);
    let root = if is_writable { "writable" } else { "readonly" };
    options.push(format!("--container-{root}"));
    let folder = file.map_or(Some(HOME), |file| file.workdir.as_deref());
    options.extend(folder.map(|folder| format!("--container-workdir={folder}")));
    let takes = |path: &str| {
        let is_taken = |c: char| ":,\"$`\\".contains(c) || c.is_control();
        if path.contains(is_taken) {
            let expected = "expected a path without any of : , \" $ ` \\";
            return Err(format!("Pyxis cannot mount {path}; {expected}"));
        }
        Ok(())
    };
    takes(&part.display().to_string())?;
    let all = run.program.iter().flat_map(|program| &program.mounts);
    for (place, mount) in all.enumerate() {
        let (source, target) = (mount.source.display().to_string(), &mount.target);
        let copy = part.join(format!("copies/{place}")).display().to_string();
        takes(&source)?;
        takes(target)?;
        // The part is mounted after the others, and what has its folder in the same place may stay.
        if part.starts_with(target) && (mount.is_scratch || source != *target) {
            let expected = "expected a target that is not above the session's folder";
            return Err(format!(
                "the mount {source}:{target} hides {}; {expected}",
                part.display()
            ));
        }
        if mount.is_scratch {
            let words = ["copy".to_owned(), source, copy.clone()];
            let _ = writeln!(lines, "{}", command_line(&words));
            let _ = write!(mounts, "{copy}:{target},");
        } else {
            let _ = write!(mounts, "{source}:{target}:ro,");
        }
    }
    let mut words = vec!["step".to_owned(), mounts];
    words.extend(options);
    let _ = writeln!(lines, "{}", command_line(&words));
    Ok(lines)
}

/// `registry.example#team/a@sha256:…`: in every version of enroot a registry ends there.
fn enroot_s(image: &str) -> String {
    let of_hub = image.strip_prefix("docker.io/");
    let image = of_hub.unwrap_or(image);
    match image.split_once('/') {
        Some((registry, rest)) if registry.contains(['.', ':']) || registry == "localhost" => {
            format!("{registry}#{rest}")
        }
        _ => image.to_owned(),
    }
}

/// What a task runs once it has found its part; `program` is quoted. The part has its own path in steps,
/// for blocks of one node see each other's processes, and tell their own by it. `srun` ends a step by SIGKILL
/// where it gets SIGTERM itself, and Slurm tells the step where `scancel` asks it to. A signal that a
/// step gets before its container is there ends nothing: `srun` gets its own a minute later. Folders of
/// who submits, which enroot takes settings from, are not in the container, and Pyxis needs a shell there.
pub(super) fn script(program: &str, has_gpus: bool) -> String {
    let gpus = if has_gpus { "all" } else { "void" };
    format!(
        r#"srun --help | grep -q -e --container-image || exit {NO_PYXIS}
program=$(readlink -f "$(command -v {program})")
locks=${LOCKS_VARIABLE}
for folder in {folders}; do
    [ -n "$locks" ] || {{ [ -k "$folder" ] && [ -w "$folder" ] && locks=$folder; }}
done
: "${{locks:=/tmp}}"
export {LOCKS_VARIABLE}={HOME}/locks NVIDIA_VISIBLE_DEVICES={gpus} NVIDIA_DRIVER_CAPABILITIES=compute,utility
step= ended=
end() {{
    ended=1
    scancel --signal=TERM "$SLURM_JOB_ID"
    {{ sleep 60; kill "$step"; }} 2>/dev/null &
    last=$!
}}
trap end TERM
stop_if_ended() {{
    [ -z "$ended" ] || {{ kill "$last"; exit 3; }}
}}
# What a program made read-only goes, too.
clear() {{
    chmod -R u+rwX "$part/copies" 2>/dev/null
    rm -rf "$part/copies"
}}
run() {{
    stop_if_ended
    echo "{MARK}$1 in $2"
    run=$1
    export {IMAGE_VARIABLE}="$2"
}}
copy() {{
    "$program" pod copy "$1" "$2" || exit {NO_STEP}
}}
recorded() {{
    grep -c "\"run\":\"$run\"" "$part/records.ndjson" 2>/dev/null
}}
step() {{
    mounts=$1 before=$(recorded)
    shift
    srun --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none "--export={variables}" \
        --no-container-mount-home --no-container-remap-root --no-container-entrypoint \
        "--container-mounts=$mounts$part:$part,$program:{PROGRAM}/torchgauge:ro,$locks:{HOME}/locks" \
        "$@" /bin/sh -c 'unset XDG_CONFIG_HOME; export HOME=/tmp XDG_CACHE_HOME="${{XDG_CACHE_HOME:-/tmp/.cache}}"; exec "$@"' sh \
        {PROGRAM}/torchgauge node --run "$run" "$part" </dev/null &
    step=$!
    wait "$step"
    status=$?
    while kill -0 "$step" 2>/dev/null; do
        wait "$step"
        status=$?
    done
    clear
    stop_if_ended
    # A run that fails is a record, also where Slurm calls the step failed because the workload ran out
    # of memory, and the next one begins.
    [ "$status" = 0 ] || [ "$(recorded)" != "$before" ] || exit {NO_STEP}
}}
clear
. "$part/{STEPS}"
"#,
        folders = LOCK_FOLDERS.join(" "),
        variables = VARIABLES.join(","),
    )
}

/// Why a part's last step carried no run out, from what its job said.
pub(super) fn why(part: &Path) -> String {
    let said = fs::read_to_string(part.join("slurm.log")).unwrap_or_default();
    let last = said.rsplit(MARK).next().unwrap_or_default();
    let (step, rest) = last.split_once('\n').unwrap_or((last, ""));
    let wrong = rest
        .lines()
        .filter(|line| line.to_lowercase().contains("error"));
    let words = wrong.map(|line| line.rsplit("pyxis: ").next().unwrap_or(line).trim());
    let words: Vec<&str> = words.collect();
    let is_cause = |word: &&str| !AROUND.iter().any(|of| word.starts_with(of));
    let causes: Vec<&str> = words.iter().copied().filter(is_cause).take(6).collect();
    let words = if causes.is_empty() { words } else { causes }.join("; ");
    let next = if words.contains("failed to import") {
        "check the reference, and enroot's credentials for the registry"
    } else {
        "its slurm.log has details"
    };
    let parts = [step, &words, next];
    let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    format!("could not carry out {}", parts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executors::nodes::inside::tests::program;

    #[test]
    fn a_run_is_a_step_in_its_image() {
        let part = Path::new("/shared/s/parts/000");
        let mut run = Due {
            name: "0001-x".to_owned(),
            image: "r.example:5000/team/a@sha256:00".to_owned(),
            program: None,
        };
        let image = "--container-image=r.example:5000#team/a@sha256:00";
        let expected = format!(
            "run 0001-x {}\nstep '' '{image}' --container-readonly --container-workdir=/torchgauge\n",
            run.image
        );
        assert_eq!(step(&run, part).unwrap(), expected);
        let mut own = program(&[
            (Path::new("/src"), "/work", false),
            (Path::new("/a b"), "/own", true),
        ]);
        own.file.writable = true;
        run.program = Some(own);
        let expected = format!(
            "run 0001-x {}\ncopy '/a b' /shared/s/parts/000/copies/1\n\
             step /src:/work:ro,/shared/s/parts/000/copies/1:/own, '{image}' --container-writable\n",
            run.image
        );
        assert_eq!(step(&run, part).unwrap(), expected);
        run.program = Some(program(&[(Path::new("/a,b"), "/work", false)]));
        assert!(step(&run, part).unwrap_err().contains("/a,b"));
        run.program = Some(program(&[(Path::new("/shared"), "/shared", false)]));
        step(&run, part).unwrap();
        for hides in [("/src", "/shared/s", false), ("/shared", "/shared", true)] {
            let (source, target, is_scratch) = hides;
            run.program = Some(program(&[(Path::new(source), target, is_scratch)]));
            let error = step(&run, part).unwrap_err();
            assert!(error.contains("hides /shared/s/parts/000"), "{error}");
        }
        for (image, expected) in [
            ("team/a@sha256:00", "team/a@sha256:00"),
            ("docker.io/team/a@sha256:00", "team/a@sha256:00"),
            ("localhost/a@sha256:00", "localhost#a@sha256:00"),
        ] {
            assert_eq!(enroot_s(image), expected);
        }
    }

    #[test]
    fn why_a_step_did_not_begin_is_in_pyxis_s_words() {
        let part = tempfile::tempdir().unwrap();
        let said = "torchgauge-step 0000-a in r/a@sha256:00\nerror: of another\n\
            torchgauge-step 0001-b in r/b@sha256:11\n\
            slurmstepd: pyxis: importing docker image: r#b@sha256:11\n\
            slurmstepd: error: pyxis: failed to import docker image: r#b@sha256:11\n\
            slurmstepd: error: pyxis: printing enroot log file:\n\
            slurmstepd: error: pyxis:     [INFO] Querying registry for permission grant\n\
            slurmstepd: error: pyxis:     [ERROR] URL https://r/v2/b returned error code: 404 Not Found\n\
            srun: error: node1: task 0: Exited with exit code 1\n";
        fs::write(part.path().join("slurm.log"), said).unwrap();
        let why = why(part.path());
        let expected = "could not carry out 0001-b in r/b@sha256:11; failed to import docker image: \
            r#b@sha256:11; [ERROR] URL https://r/v2/b returned error code: 404 Not Found; check \
            the reference";
        assert!(why.starts_with(expected), "{why}");
    }
}
