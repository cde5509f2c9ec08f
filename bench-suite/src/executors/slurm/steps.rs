//! Blocks whose runs are steps of Slurm's, each in its image: this program carries a run out inside of
//! the image, as in a Pod, for what `srun` starts is no child of the job's script.

use std::{fmt::Write as _, fs, io::Write as _, path::Path};

use record::{SessionFolder, command_line};

use super::{
    super::{
        ExecutorError, IMAGE_VARIABLE,
        nodes::inside::{self, HOME, PROGRAM, STEPS_VARIABLE, Steps},
        process,
    },
    oci, pyxis,
    queue::{NO_RUNTIME, NO_STEP},
};
use crate::{
    host::{LOCK_FOLDERS, LOCKS_VARIABLE, NAME_VARIABLE},
    session::{Due, Part},
};

/// The steps of a part, which its job's script reads, in a file beside it: images can write to the part.
const STEPS: &str = "steps.sh";
/// What the script says before each step.
const MARK: &str = "torchgauge-step ";
/// What lies around what went wrong: enroot's log, and what followed.
const AROUND: [&str; 5] = ["[INFO]", "child ", "printing enroot", "slurmstepd", "srun"];
/// Variables of the node that steps get. Everything else is of the image and the run.
const VARIABLES: [&str; 6] = [
    IMAGE_VARIABLE,
    STEPS_VARIABLE,
    NAME_VARIABLE,
    LOCKS_VARIABLE,
    "NVIDIA_VISIBLE_DEVICES",
    "NVIDIA_DRIVER_CAPABILITIES",
];

/// Writes down the steps of a part.
pub(super) fn write_steps(steps: Steps, part: &Part) -> Result<(), ExecutorError> {
    let or = format!(
        ", for each run is {}; or write `engine: podman` or `engine: apptainer` into the profile",
        steps.container()
    );
    inside::check_images(part, &or)?;
    let refused = |message: String| ExecutorError::Argument(message.into());
    let begun = begun_with(part);
    if let Some(other) = begun.filter(|engine| engine != process::REGISTRATION.word) {
        return Err(refused(format!(
            "{} was begun with `engine: {other}`, and now each run is {}; write `engine: {other}` into \
             the profile",
            part.folder.display(),
            steps.container()
        )));
    }
    let mut text = String::new();
    for run in &part.runs {
        text.push_str(&step(steps, run, &part.folder).map_err(refused)?);
    }
    let file = part.folder.with_extension(STEPS);
    regular_file::replace(&file, |file| file.write_all(text.as_bytes()))
        .map_err(|error| ExecutorError::Unavailable(format!("{}: {error}", file.display()).into()))
}

/// The engine that a part was planned for.
fn begun_with(part: &Part) -> Option<String> {
    let session = SessionFolder::at(&part.folder).read_session().ok()?;
    Some(session.asked?.engine)
}

/// Refuses a part whose runs were steps, for `engine` in its profile now: without them they would be
/// plain processes.
pub(super) fn check_isolated(part: &Part, engine: &str) -> Result<(), ExecutorError> {
    let plain = process::REGISTRATION.word;
    if engine == plain || begun_with(part).as_deref() != Some(plain) {
        return Ok(());
    }
    Err(ExecutorError::Argument(
        format!(
            "{} was begun with each run as a step, or as a plain process, and the profile now has \
             `engine: {engine}`; write the `engine` that it was begun with",
            part.folder.display()
        )
        .into(),
    ))
}

/// The lines that carry a run out.
fn step(steps: Steps, run: &Due, part: &Path) -> Result<String, String> {
    let begin = ["run", &run.name, &run.image].map(str::to_owned);
    let (mut lines, mut mounts) = (command_line(&begin) + "\n", String::new());
    let file = run.program.as_ref().map(|program| &program.file);
    let is_writable = file.is_some_and(|file| file.writable);
    let workdir = file.map_or(Some(HOME), |file| file.workdir.as_deref());
    let options = match steps {
        Steps::Pyxis => pyxis::options(&run.image, is_writable, workdir),
        Steps::Oci => oci::options(is_writable, workdir),
    };
    let takes = |path: &str| {
        let is_taken = |c: char| ":,\"$`\\".contains(c) || c.is_control();
        if path.contains(is_taken) {
            let expected = "expected a path without any of : , \" $ ` \\";
            return Err(format!("{} cannot mount {path}; {expected}", steps.name()));
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

/// What a task runs once it has found its part; `program` is quoted. The part has its own path in steps,
/// for blocks of one node see each other's processes, and tell their own by it. `srun` ends a step by SIGKILL
/// where it gets SIGTERM itself, and Slurm tells the step where `scancel` asks it to. A signal that a
/// step gets before its container is there ends nothing: `srun` gets its own a minute later.
pub(super) fn script(steps: Steps, program: &str, has_gpus: bool) -> String {
    let help = match steps {
        Steps::Pyxis => "--container-image",
        Steps::Oci => "--container[ =]",
    };
    let gpus = if has_gpus { "all" } else { "void" };
    let (first, prepare, options, more) = match steps {
        Steps::Pyxis => ("", String::new(), pyxis::OPTIONS, &pyxis::VARIABLES[..]),
        Steps::Oci => (oci::FIRST, oci::prepare(), oci::OPTIONS, &[][..]),
    };
    format!(
        r#"srun --help | grep -q -e '{help}' || exit {NO_RUNTIME}
program=$(readlink -f "$(command -v {program})")
locks=${LOCKS_VARIABLE}
for folder in {folders}; do
    [ -n "$locks" ] || {{ [ -k "$folder" ] && [ -w "$folder" ] && locks=$folder; }}
done
: "${{locks:=/tmp}}"
export {STEPS_VARIABLE}={word} {LOCKS_VARIABLE}={HOME}/locks NVIDIA_VISIBLE_DEVICES={gpus} NVIDIA_DRIVER_CAPABILITIES=compute,utility
step= ended= bundle=
{first}end() {{
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
    # An image may have put a link there.
    [ -L "$part/copies" ] || chmod -R u+rwX "$part/copies" ${{bundle:+"$bundle"}} 2>/dev/null
    rm -rf "$part/copies" ${{bundle:+"$bundle"}}
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
    mounts="$1$part:$part,$program:{PROGRAM}/torchgauge:ro,$locks:{HOME}/locks" before=$(recorded)
    shift
    {prepare}srun --nodes=1 --ntasks=1 --cpu-bind=none --mpi=none "--export={variables}" {options} \
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
. "$part.{STEPS}"
"#,
        folders = LOCK_FOLDERS.join(" "),
        word = steps.word(),
        variables = [&VARIABLES[..], more].concat().join(","),
    )
}

/// Why a part's last step carried no run out, from what its job said.
pub(super) fn why(part: &Path) -> String {
    let said = fs::read_to_string(part.join("slurm.log")).unwrap_or_default();
    let last = said.rsplit(MARK).next().unwrap_or_default();
    let (step, rest) = last.split_once('\n').unwrap_or((last, ""));
    let is_wrong = |line: &&str| {
        let lower = line.to_lowercase();
        (lower.contains("error") || lower.contains("fatal")) && !lower.contains("level=warning")
    };
    let wrong = rest.lines().filter(is_wrong);
    let words = wrong.map(|line| line.rsplit("pyxis: ").next().unwrap_or(line).trim());
    // As runc and crun write their logs.
    let words = words.map(|line| {
        line.rsplit(" msg=")
            .next()
            .unwrap_or(line)
            .trim_matches('"')
    });
    let words: Vec<&str> = words.collect();
    let is_cause = |word: &&str| !AROUND.iter().any(|of| word.starts_with(of));
    let causes: Vec<&str> = words.iter().copied().filter(is_cause).take(6).collect();
    let words = if causes.is_empty() { words } else { causes }.join("; ");
    let next = if words.contains("failed to import") {
        "check the reference, and enroot's credentials for the registry"
    } else if words.contains("is needed to unpack") {
        "load Apptainer in the job (`module load apptainer`), or give the profile another `engine`"
    } else if words.contains("no space left") {
        "make room on the node, or set XDG_CACHE_HOME and TMPDIR to folders with more"
    } else if words.contains("cannot unpack") {
        "check the reference, and log in there on the node (`apptainer registry login`)"
    } else if words.contains("execve(): /program/") {
        "Slurm on the node has no oci.conf, and started no container; give the profile another `engine`"
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
        assert_eq!(step(Steps::Pyxis, &run, part).unwrap(), expected);
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
        assert_eq!(step(Steps::Pyxis, &run, part).unwrap(), expected);
        let expected = format!(
            "run 0001-x {}\ncopy '/a b' /shared/s/parts/000/copies/1\n\
             step /src:/work:ro,/shared/s/parts/000/copies/1:/own, --writable\n",
            run.image
        );
        assert_eq!(step(Steps::Oci, &run, part).unwrap(), expected);
        run.program = Some(program(&[(Path::new("/a,b"), "/work", false)]));
        insta::assert_snapshot!(step(Steps::Pyxis, &run, part).unwrap_err(), @r#"Pyxis cannot mount /a,b; expected a path without any of : , " $ ` \"#);
        run.program = Some(program(&[(Path::new("/shared"), "/shared", false)]));
        step(Steps::Pyxis, &run, part).unwrap();
        let refusals = [("/src", "/shared/s", false), ("/shared", "/shared", true)].map(|hides| {
            let (source, target, is_scratch) = hides;
            run.program = Some(program(&[(Path::new(source), target, is_scratch)]));
            step(Steps::Pyxis, &run, part).unwrap_err()
        });
        insta::assert_snapshot!(refusals.join("\n"), @r"
        the mount /src:/shared/s hides /shared/s/parts/000; expected a target that is not above the session's folder
        the mount /shared:/shared hides /shared/s/parts/000; expected a target that is not above the session's folder
        ");
    }

    #[test]
    fn a_part_that_nodes_began_is_not_taken_over() {
        let home = tempfile::tempdir().unwrap();
        let asked = record::Asked {
            engine: "auto".to_owned(),
            ..record::Asked::default()
        };
        let session = record::Session {
            asked: Some(asked),
            version: record::VERSION,
            ..record::Session::default()
        };
        let folder = home.path().to_owned();
        SessionFolder::at(&folder).write_session(&session).unwrap();
        let part = Part {
            block: 0,
            folder,
            is_complete: false,
            runs: Vec::new(),
        };
        let error = write_steps(Steps::Oci, &part).unwrap_err().to_string();
        let error = error.replace(home.path().to_str().unwrap(), "/part");
        insta::assert_snapshot!(error, @"/part was begun with `engine: auto`, and now each run is a step of Slurm's --container; write `engine: auto` into the profile");
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
        let told = why(part.path());
        insta::assert_snapshot!(told.replace(part.path().to_str().unwrap(), "/part"), @"could not carry out 0001-b in r/b@sha256:11; failed to import docker image: r#b@sha256:11; [ERROR] URL https://r/v2/b returned error code: 404 Not Found; check the reference, and enroot's credentials for the registry");
        // A runtime's, and Slurm's where it starts no container at all.
        let told = [
            "time=\"x\" level=warning msg=\"no count\" error=\"none\"\n\
                 time=\"x\" level=error msg=\"runc run failed: no such file\"\n\
                 srun: error: node1: task 0: Exited with exit code 1\n",
            "slurmstepd: error: execve(): /program/torchgauge: No such file or directory\n",
        ]
        .map(|said| {
            let said = format!("torchgauge-step 0000-a in x\n{said}");
            fs::write(part.path().join("slurm.log"), said).unwrap();
            why(part.path()).replace(part.path().to_str().unwrap(), "/part")
        });
        insta::assert_snapshot!(told.join("\n"), @r"
        could not carry out 0000-a in x; runc run failed: no such file; its slurm.log has details
        could not carry out 0000-a in x; slurmstepd: error: execve(): /program/torchgauge: No such file or directory; Slurm on the node has no oci.conf, and started no container; give the profile another `engine`
        ");
    }
}
