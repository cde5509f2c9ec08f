//! What Slurm says of jobs, and what that means for a block.

use std::{fmt, path::Path, process::Stdio, time::Duration};

use tokio::{io::AsyncWriteExt as _, process::Command};

use super::{
    super::{ExecutorError, nodes::inside::Steps},
    profile::seconds,
    steps,
};

/// One task of a job array that waits or runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Task {
    /// Its job's number, with the task's behind it: `12_3`.
    pub(super) id: String,
    pub(super) block: u32,
    pub(super) is_pending: bool,
    /// Why it waits, in Slurm's word.
    pub(super) reason: String,
    pub(super) nodes: String,
}

/// How a task ended, in Slurm's words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ending {
    /// Such as `TIMEOUT`.
    pub(super) state: String,
    /// Its exit status, and the signal that ended it.
    pub(super) exit: (u32, u32),
    pub(super) nodes: String,
    pub(super) ran: Option<Duration>,
    pub(super) limit: Option<Duration>,
}

/// Runs a command of Slurm's; its output, or what it says is wrong.
pub(super) async fn slurm(words: &[&str], input: &str) -> Result<String, String> {
    let [program, arguments @ ..] = words else {
        return Ok(String::new());
    };
    let failed = |error: std::io::Error| format!("{program}: {error}");
    let mut child = Command::new(program)
        .args(arguments)
        // Columns and times in a user's own form could not be read.
        .env_remove("SQUEUE_FORMAT")
        .env_remove("SACCT_FORMAT")
        .env_remove("SLURM_TIME_FORMAT")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C in the terminal is for this program alone.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(input.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(failed)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said
        .lines()
        .map(|line| {
            line.trim_start_matches(&format!("{program}: error: "))
                .trim()
        })
        .filter(|line| !line.is_empty())
        .collect();
    Err(lines.join("; "))
}

/// The tasks of jobs of this name that wait or run.
pub(super) async fn live(name: &str) -> Result<Vec<Task>, String> {
    let name = format!("--name={name}");
    let words = [
        "squeue",
        "--me",
        "--noheader",
        "--array",
        &name,
        "--format=%i|%K|%T|%N|%r",
    ];
    let text = slurm(&words, "").await?;
    Ok(text.lines().filter_map(task).collect())
}

fn task(line: &str) -> Option<Task> {
    let mut columns = line.trim().splitn(5, '|');
    let mut next = || columns.next();
    let (id, block, state, nodes, reason) = (next()?, next()?, next()?, next()?, next()?);
    Some(Task {
        id: id.to_owned(),
        block: block.parse().ok()?,
        is_pending: state == "PENDING",
        reason: reason.to_owned(),
        nodes: nodes.to_owned(),
    })
}

/// How a task ended, from the accounts, or from the controller, which forgets after some minutes;
/// `None` where neither knows, or it has not ended.
pub(super) async fn ending(id: &str) -> Option<Ending> {
    let job = format!("--jobs={id}");
    let format = "--format=State,ExitCode,NodeList,Elapsed,Timelimit";
    let words = [
        "sacct",
        "--noheader",
        "--allocations",
        "--parsable2",
        &job,
        format,
    ];
    let accounts = slurm(&words, "").await.ok();
    let told = accounts
        .as_deref()
        .and_then(|text| accounted(text.lines().last()?));
    let told = if told.is_some() {
        told
    } else {
        let words = ["scontrol", "show", "job", id, "--oneliner"];
        controlled(&slurm(&words, "").await.ok()?)
    };
    told.filter(|ending| {
        let goes_on = [
            "RUNNING",
            "PENDING",
            "COMPLETING",
            "REQUEUED",
            "SUSPENDED",
            "CONFIGURING",
        ];
        !goes_on.contains(&ending.state.as_str())
    })
}

/// `TIMEOUT|0:15|node1|00:01:02|00:01:00`, and `CANCELLED by 0` for a state.
fn accounted(line: &str) -> Option<Ending> {
    let columns: Vec<&str> = line.split('|').collect();
    let [state, exit, nodes, ran, limit] = columns[..] else {
        return None;
    };
    Some(Ending {
        state: state.split_whitespace().next()?.to_owned(),
        exit: status(exit)?,
        nodes: nodes.to_owned(),
        ran: seconds(ran),
        limit: seconds(limit),
    })
}

/// `JobState=TIMEOUT … ExitCode=0:15 RunTime=00:01:02 TimeLimit=00:01:00 … NodeList=node1`.
fn controlled(text: &str) -> Option<Ending> {
    let of = |key: &str| {
        let mut fields = text
            .split_whitespace()
            .filter_map(|field| field.split_once('='));
        fields.find_map(|(name, value)| (name == key).then_some(value))
    };
    Some(Ending {
        state: of("JobState")?.to_owned(),
        exit: status(of("ExitCode")?)?,
        nodes: of("NodeList")
            .filter(|nodes| *nodes != "(null)")
            .unwrap_or_default()
            .to_owned(),
        ran: of("RunTime").and_then(seconds),
        limit: of("TimeLimit").and_then(seconds),
    })
}

fn status(text: &str) -> Option<(u32, u32)> {
    let (status, signal) = text.split_once(':')?;
    Some((status.parse().ok()?, signal.parse().ok()?))
}

/// Exit statuses of the script that `sbatch` is given, beside those of the program in it.
pub(super) const NOT_SHARED: u32 = 66;
pub(super) const NO_PROGRAM: u32 = 67;
pub(super) const NO_RUNTIME: u32 = 68;
pub(super) const NO_STEP: u32 = 69;
/// The signal that Slurm writes for a job whose files it could not open.
const LAUNCH_FAILED: u32 = 53;

impl Ending {
    /// Why a block did not get to its end, with the next step; `by` makes its runs' containers.
    pub(super) fn why(&self, folder: &Path, program: &str, by: Option<Steps>) -> String {
        let seconds = |time: Option<Duration>| time.map_or(0, |time| time.as_secs());
        let limit = seconds(self.limit);
        let out_of_time = || {
            format!("reached its time limit of {limit} s (TIMEOUT); raise `time` in the profile")
        };
        // Told to end before its limit, it ends by itself.
        let was_told = self.exit.0 == 3 && limit > 0 && {
            let left = limit.saturating_sub(seconds(self.ran));
            // Slurm may tell it a minute earlier.
            left <= (limit / 4).min(120) + 60
        };
        match (self.state.as_str(), self.exit) {
            ("TIMEOUT" | "DEADLINE", _) => out_of_time(),
            ("FAILED", _) if was_told => out_of_time(),
            ("OUT_OF_MEMORY", _) => {
                "ran out of the memory that Slurm gave it (OUT_OF_MEMORY); give `extra` a larger --mem"
                    .to_owned()
            }
            ("NODE_FAIL" | "BOOT_FAIL", _) => {
                format!("its node was lost ({}); what it finished is kept", self.state)
            }
            ("PREEMPTED", _) => "made room for another job (PREEMPTED)".to_owned(),
            ("CANCELLED", _) => "was cancelled (CANCELLED)".to_owned(),
            (_, (NOT_SHARED, _) | (_, LAUNCH_FAILED)) => format!(
                "the node has no {}: it is not shared with the nodes; give --out a folder that is",
                folder.display()
            ),
            (_, (NO_PROGRAM, _)) => format!(
                "the node has no program {program}; name it in the profile as nodes find it, with `program`"
            ),
            (_, (NO_RUNTIME, _)) => {
                let option = match by {
                    Some(Steps::Oci) => "--container",
                    _ => "--container-image (Pyxis)",
                };
                format!(
                    "cannot start containers: `srun` on its node has no {option}; give the profile \
                     another `engine`"
                )
            }
            (_, (NO_STEP, _)) => steps::why(folder),
            (state, (status, signal)) => format!(
                "ended early ({state}, exit status {status}, signal {signal}); its slurm.log has the reason"
            ),
        }
    }
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (block, id) = (self.block, &self.id);
        if self.is_pending {
            write!(f, "block {block} waits as job {id}: {}", self.reason)
        } else {
            write!(f, "block {block} runs on {} as job {id}", self.nodes)
        }
    }
}

/// Whether a task waits for nodes that take no jobs.
pub(super) fn waits_for_nodes(reason: &str) -> bool {
    reason.contains("DRAINED") || reason.contains("ReqNodeNotAvail")
}

/// The nodes of this partition, or of all, that take no jobs, and why: ` (node4: disk)`; nothing where
/// there are none.
pub(super) async fn out_of_service(partition: Option<&str>) -> String {
    let partition = partition.map(|name| format!("--partition={name}"));
    let mut words = vec!["sinfo", "--noheader", "--list-reasons", "--format=%N: %E"];
    words.extend(partition.as_deref());
    let nodes = slurm(&words, "").await.unwrap_or_default();
    let nodes: Vec<&str> = nodes.lines().map(str::trim).collect();
    match nodes[..] {
        [] => String::new(),
        _ => format!(" ({})", nodes.join(", ")),
    }
}

/// What a reason to wait says that does not pass by itself, with the next step.
pub(super) fn never(reason: &str) -> Option<&'static str> {
    const REASONS: [(&str, &str); 11] = [
        (
            "WallDurationPerJob",
            "`time` is above what a job of yours may take; lower it (`sacctmgr show qos` and \
             `sacctmgr show associations user=$USER` list limits)",
        ),
        (
            "PerJob",
            "a block asks for more than a job of yours may have; less in `gres` and `extra`, or \
             another `qos` or `account`",
        ),
        (
            "PartitionTimeLimit",
            "`time` is above the partition's limit; lower it (`sinfo` lists limits)",
        ),
        (
            "PartitionNodeLimit",
            "the partition has fewer nodes than are asked for; see `extra`",
        ),
        (
            "PartitionConfig",
            "the partition's rules do not allow it; `scontrol show partition` lists them",
        ),
        (
            "AccountNotAllowed",
            "`account` may not use the partition; take another of them",
        ),
        ("QOSNotAllowed", "`qos` may not be used there; take another"),
        ("InvalidAccount", "there is no such `account`"),
        ("InvalidQOS", "there is no such `qos`"),
        (
            "BadConstraints",
            "no node can ever meet `gres`, `constraint` and `extra` together",
        ),
        (
            "launch_failed_requeued_held",
            "it could not be started and is held; see `scontrol show job`",
        ),
    ];
    let mut known = REASONS.iter();
    known.find_map(|(word, next)| reason.replace(' ', "_").contains(word).then_some(*next))
}

/// What `sbatch` refused, and the key of the profile that is at fault.
pub(super) fn refused(said: &str, profile: &str) -> ExecutorError {
    const WORDS: [(&str, &str); 13] = [
        (
            "job array specification",
            "more --blocks than the cluster's arrays may have tasks; `scontrol show config` has its \
             MaxArraySize",
        ),
        (
            "violates accounting/qos policy",
            "more than you may submit or ask for; fewer --blocks, less `time`, or wait until jobs of \
             yours have ended (`sacctmgr show associations user=$USER` lists limits)",
        ),
        (
            "temporarily unavailable",
            "the cluster's queue is full; fewer --blocks, or run again when jobs have ended",
        ),
        (
            "partition not available",
            "this `partition` takes no jobs now (`scontrol show partition` shows its state); wait, or \
             take another",
        ),
        (
            "invalid partition",
            "no such `partition`; `sinfo --summarize` lists them",
        ),
        (
            "group not permitted",
            "you may not use this `partition`; ask who runs the cluster, or take another",
        ),
        (
            "account",
            "`account` and `partition` do not go together, or are not yours; `sacctmgr show associations user=$USER` lists yours",
        ),
        (
            "qos",
            "no such `qos`, or not yours; `sacctmgr show associations user=$USER` lists yours",
        ),
        (
            "generic resource",
            "no node has such a `gres`; `sinfo --Format=partition,gres` lists them",
        ),
        (
            "feature",
            "no node has such a `constraint`; `sinfo --Format=partition,features` lists them",
        ),
        (
            "time limit",
            "`time` is above the partition's limit; `sinfo` lists limits",
        ),
        (
            "denied",
            "you may not submit jobs there; ask who runs the cluster",
        ),
        (
            "contact slurm controller",
            "the controller does not answer; `scontrol ping` has details",
        ),
    ];
    let lower = said.to_lowercase();
    let known = WORDS.iter().find(|(word, _)| lower.contains(word));
    let next = known.map_or("see the options in the profile", |(_, next)| next);
    let message = format!("sbatch: {said}; profile {profile}: {next}").into();
    if next.starts_with("the controller") {
        ExecutorError::Unavailable(message)
    } else {
        ExecutorError::Argument(message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slurm_s_words_are_read() {
        let read = task("12_3|3|PENDING||Resources\n").unwrap();
        assert_eq!(read.to_string(), "block 3 waits as job 12_3: Resources");
        assert!(task("12|N/A|RUNNING|node1|None").is_none());
        let of = accounted("TIMEOUT|0:15|node1|00:01:02|00:01:00").unwrap();
        let text = "JobId=1 JobState=TIMEOUT Reason=x ExitCode=0:15 RunTime=00:01:02 \
                    TimeLimit=00:01:00 NodeList=node1 BatchHost=node1";
        assert_eq!(controlled(text), Some(of));
        assert_eq!(
            accounted("CANCELLED by 0|0:0|None assigned|00:00:00|01:00:00")
                .unwrap()
                .state,
            "CANCELLED"
        );
        assert_eq!(accounted("Slurm accounting storage is disabled"), None);
    }

    #[test]
    fn endings_name_the_next_step() {
        let why = |state: &str, exit, ran| {
            let ending = Ending {
                state: state.to_owned(),
                exit,
                nodes: "node1".to_owned(),
                ran: Some(Duration::from_secs(ran)),
                limit: Some(Duration::from_mins(10)),
            };
            ending.why(Path::new("/data/s"), "torchgauge", None)
        };
        for (state, exit, ran, expected) in [
            ("TIMEOUT", (0, 15), 600, "raise `time`"),
            ("FAILED", (3, 0), 485, "raise `time`"),
            ("FAILED", (3, 0), 200, "slurm.log has the reason"),
            ("NODE_FAIL", (0, 0), 1, "node was lost"),
            ("PREEMPTED", (0, 0), 1, "made room"),
            ("CANCELLED", (0, 15), 1, "was cancelled"),
            ("OUT_OF_MEMORY", (0, 125), 1, "larger --mem"),
            ("FAILED", (66, 0), 1, "not shared"),
            ("FAILED", (0, 53), 1, "not shared"),
            ("FAILED", (67, 0), 1, "no program torchgauge"),
            ("FAILED", (68, 0), 1, "has no --container-image (Pyxis)"),
        ] {
            let found = why(state, exit, ran);
            assert!(found.contains(expected), "{state}: {found}");
        }
    }

    #[test]
    fn what_never_passes_is_told_from_what_does() {
        for (reason, expected) in [
            ("PartitionTimeLimit", Some("lower it")),
            ("QOSMaxWallDurationPerJobLimit", Some("`time` is above")),
            ("AssocMaxCpuPerJobLimit", Some("a block asks for more")),
            ("QOSMaxGRESPerJob", Some("a block asks for more")),
            ("QOSMaxJobsPerUserLimit", None),
            ("AssocGrpCpuLimit", None),
            ("Resources", None),
            (
                "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions",
                None,
            ),
        ] {
            let found = never(reason);
            let is_it = match expected {
                Some(words) => found.is_some_and(|next| next.contains(words)),
                None => found.is_none(),
            };
            assert!(is_it, "{reason}: {found:?}");
        }
    }

    #[test]
    fn what_sbatch_refuses_names_the_key() {
        for (said, expected) in [
            ("invalid partition specified: nope", "no such `partition`"),
            (
                "Invalid generic resource (gres) specification",
                "such a `gres`",
            ),
            ("Invalid feature specification", "such a `constraint`"),
            (
                "Requested time limit is invalid (missing or exceeds some limit)",
                "`time` is above",
            ),
            (
                "User's group not permitted to use this partition",
                "may not use this",
            ),
            (
                "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)",
                "fewer --blocks",
            ),
            ("Resource temporarily unavailable", "queue is full"),
        ] {
            let found = refused(said, "p.yaml").to_string();
            assert!(
                found.contains(expected) && found.contains("p.yaml"),
                "{found}"
            );
        }
    }
}
