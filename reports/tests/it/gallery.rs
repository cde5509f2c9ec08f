//! The gallery's pages: what each is there to answer stands on its first screen.

use std::{fs, path::Path};

use record::SessionFolder;
use reports::{Source, View, comparison, html};
use verdict::FailOn;

/// What stands between the heading and the first section of a page, drawn anew.
fn top(page: &str) -> String {
    let folder = SessionFolder::at(gallery().join(page));
    let html = if folder.path().join(SessionFolder::SESSION).exists() {
        html::render(&View::of(&[Source::read(&folder).unwrap()])).unwrap()
    } else {
        let verdicts = fs::read(folder.path().join("comparison.json"));
        let verdicts = verdicts.unwrap_or_else(|error| panic!("{page}: {error}"));
        let verdicts = serde_json::from_slice(&verdicts).unwrap();
        let home = tempfile::tempdir().unwrap();
        let page = comparison::write(&verdicts, FailOn::Regressed, home.path());
        fs::read_to_string(page.unwrap()).unwrap()
    };
    let (_, rest) = html.split_once("<h1>").unwrap();
    rest.split_once("<nav").unwrap().0.to_owned()
}

fn gallery() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/gallery"))
}

/// Its text.
fn text(top: &str) -> String {
    let mut text = String::new();
    for part in top.split('<') {
        let (tag, own) = part.split_once('>').unwrap_or(("", part));
        let is_inline = ["span", "/span", "wbr", "b", "/b", "code", "/code"];
        let is_inline = is_inline
            .iter()
            .any(|name| tag.split(' ').next() == Some(name));
        text += if is_inline { "" } else { "\n" };
        text += own;
    }
    text
}

/// Holds a page to what it must say before its first section, which it returns.
#[track_caller]
fn check(page: &str, wanted: &[&str]) -> String {
    let top = top(page);
    let screen = text(&top);
    for words in wanted {
        assert!(
            screen.contains(words),
            "{page} does not say {words:?}:\n{screen}"
        );
    }
    top
}

/// Records are packed, and pages follow from them.
#[test]
fn the_gallery_takes_no_more_than_fifteen_megabytes_in_git() {
    let drawn = fs::read_to_string(gallery().join(".gitignore")).unwrap();
    let drawn: Vec<&str> = drawn.lines().collect();
    assert_eq!(
        drawn,
        [
            "report.html",
            "report.json",
            "comparison.html",
            "trend.html"
        ]
    );
    let (mut folders, mut bytes) = (vec![gallery().to_owned()], 0);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.metadata().unwrap() {
                found if found.is_dir() => folders.push(entry.path()),
                _ if drawn.iter().any(|name| entry.file_name() == *name) => {}
                found => bytes += found.len(),
            }
        }
    }
    assert!((1_000_000..15_000_000).contains(&bytes), "{bytes} bytes");
}

#[test]
fn an_upgrade_names_its_largest_effects_first() {
    check(
        "upgrade-2.6-to-2.12",
        &[
            "Gate failed: 1 of 24 gated metrics regressed.",
            "Worst: warm-up of resnet50 · tf32 bs96 channels-last 1.05 s → 14.7 s, × ",
            "resnet50 · amp-bf16 bs96 channels-last 1.02 s → 10.4 s, × ",
            "regressed in 5 of 8 cells",
            "Best: process on the GPU, whole run of resnet50 · tf32 bs96 channels-last \
             27.38 GiB → 13.95 GiB, ",
            "image size 3.683 GiB → 2.999 GiB",
        ],
    );
    check(
        "upgrade-2.5-to-2.15",
        &[
            "Gate passed",
            "Worst: image size 1.917 GiB → 2.344 GiB",
            "Best: throughput of vit-l16 · amp-bf16 bs32 adamw 674.7 samples/s → 798.1 samples/s",
        ],
    );
    check(
        "h200-newest",
        &[
            "Worst: host memory",
            "Best: warm-up of bert-base",
            "image size 2.980 GiB → 2.344 GiB",
        ],
    );
}

#[test]
fn versions_stand_in_their_order_with_what_each_changed() {
    // A median, and behind it the change against the version above.
    check(
        "h200-versions",
        &[
            "Worst: warm-up, 2.6.0 → 2.9.1, of resnet50 · tf32 bs96 channels-last 1.05 s → 37.8 s",
            "1.02 s",
            "✗ 26.4 s",
            "✓ 10.7 s",
            "27.38 GiB",
            "✓ 13.95 GiB",
            "image 3.683 GiB",
        ],
    );
    let wanted = ["2.5.1 → 2.15.0", "✓ +18.25 %", "✗ 1.71 s"];
    let screen = text(&check("h200-every-version", &wanted));
    let numbers = [
        "2.5.1", "2.6.0", "2.7.1", "2.8.0", "2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0",
        "2.14.1", "2.15.0",
    ];
    let (_, matrix) = screen
        .split_once("Each version against the one above it")
        .unwrap();
    let places: Vec<_> = numbers
        .iter()
        .map(|one| matrix.find(&format!("\n{one}\n")))
        .collect();
    assert!(
        places.iter().all(Option::is_some) && places.is_sorted(),
        "{places:?}"
    );
    check(
        "cpu-versions",
        &[
            "Yes: 40 runs of 40 cells, none failed.",
            "Gate: nothing judged: all of 64 gated metrics are inconclusive from one version to the next.",
        ],
    );
}

#[test]
fn suites_of_workloads_that_people_run_are_answered() {
    check(
        "h200-data",
        &[
            "Throughput: 3437 samples/s (on-the-gpu), 244.4 samples/s to 2738 samples/s (folder).",
            "Waiting for data: lower in 3 of 4 comparisons (-96.76 % to -21.05 %)",
            "1 ✗ claim refuted",
        ],
    );
    check(
        "h100-segmentation",
        &[
            "Peak allocated: 10.09 GiB to 15.82 GiB (whole), 10.09 GiB (within-14-gib), \
             2.415 GiB (patches-within-14-gib)",
            "3 of 3 runs failed within 14.00 GiB of the GPU",
        ],
    );
}

#[test]
fn a_session_answers_the_question_of_its_suite() {
    let pages = [
        (
            "h200-vit-l-8gb",
            &["Yes: 6.646 of 8.000 GiB of the GPU, 1.354 GiB to spare"][..],
        ),
        (
            "h200-bert-large-2.6",
            &[
                "Refuted: “torch 2.6 lowers the peak of BERT-large by 12 to 18 % against 2.5”: 0.0 % \
                 less measured",
            ],
        ),
        (
            "h200-cuda-graph",
            &[
                "Throughput: faster in 4 of 4 comparisons",
                "the same to the bit",
            ],
        ),
        (
            "h200-kernel-cache",
            &[
                "Not decided: throughput inconclusive in 2 of 2 comparisons (detectable change 18.9 % to 57.5 %).",
                "Warm-up: faster in 2 of 2 comparisons (-69.94 % to -60.88 %).",
                "resnet50: kernel_cache=session against kernel_cache=run 13.7 s → 5.26 s, -60.88 %",
            ],
        ),
        (
            "h200-data-loader",
            &[
                "+165.27 % [+5.16 %, × 6.69]",
                "no room for a batch of 38535168 bytes in /dev/shm of 64 MiB",
            ],
        ),
        (
            "h200-slim",
            &[
                "Not decided: throughput inconclusive in 7 of 7 comparisons (detectable change 1.4 % to 4.4 %); \
                 peak allocated unchanged in 7",
                "Best: image size 2.980 GiB → 1.973 GiB, -33.81 %",
                "Gate passed",
            ],
        ),
        (
            "h200-idle",
            &["Host memory: 474.6 MiB", "CUDA context: 523.6 MiB"],
        ),
        ("h200-overhead", &["Harness: 125 ms"]),
        (
            "h200-out-of-memory",
            &[
                "out-of-memory: ",
                "Every run ended well of resnet50 bs64; bert-large bs8.",
            ],
        ),
        ("h200-claims", &["11 ✗ claims refuted"]),
        (
            "h200-allocators",
            &[
                "Yes: peak allocated less in 2 of 2 comparisons (-0.68 % to -0.55 %); peak reserved less in 1",
                "Best: peak reserved of resnet50",
            ],
        ),
        (
            "h200-first",
            &["cudaMallocAsync against expandable_segments 10.32 GiB → 139.9 GiB"],
        ),
        (
            "h200-fidelity",
            &[
                "Yes: in each of 4 deterministic cells the losses of all runs are the same to the bit.",
                "Inconclusive: “Timing the parts of a step costs ResNet-50 at most 0.5 % of its \
                 throughput”: 0.9980 times as much (0.9651 … 1.032) measured",
            ],
        ),
    ];
    for (page, wanted) in pages {
        let top = check(page, wanted);
        assert!(top.contains("<svg"), "{page} begins without a picture");
        // An answer in a word stands before all else.
        let (word, _) = wanted[0].split_once(": ").unwrap_or_default();
        if ["Yes", "Not decided", "Refuted"].contains(&word) {
            let (_, said) = top.split_once("Verdict</h2>").unwrap();
            assert!(text(said).trim().starts_with(wanted[0]), "{page}");
        }
    }
    assert!(top("h200-overhead").contains("Time besides the work"));
}

/// What a change on a page is as a ratio; `None` of what is no number.
fn ratio(text: &str) -> Option<f64> {
    match text.strip_prefix("× ") {
        Some(times) => times.replace(',', "").parse().ok(),
        None if text.contains("× 1000") => Some(f64::INFINITY),
        None => {
            let percent = text.trim_start_matches("&lt; ").trim_end_matches(" %");
            Some(1.0 + percent.parse::<f64>().ok()? / 100.0)
        }
    }
}

/// The tables of the pages, as a reader holds each verdict beside the interval and the threshold in its
/// row.
#[test]
fn no_row_of_a_page_contradicts_its_interval() {
    // Ends are.
    const ROUNDED: f64 = 1e-4;
    let mut count = 0;
    for entry in gallery().read_dir().unwrap() {
        let folder = entry.unwrap().path();
        let pages = ["report.md", "comparison.md"].map(|name| folder.join(name));
        for page in pages.iter().filter(|page| page.exists()) {
            let mut heads: Vec<String> = Vec::new();
            for line in fs::read_to_string(page).unwrap().lines() {
                let cells = line
                    .strip_prefix("| ")
                    .map(|rest| rest.trim_end_matches(" |"));
                let cells: Vec<&str> =
                    cells.map_or_else(Vec::new, |row| row.split(" | ").collect());
                if cells.first() == Some(&"cell") {
                    heads = cells.iter().map(|&head| head.to_owned()).collect();
                    continue;
                }
                let of = |head: &str| {
                    let place = heads.iter().position(|one| one == head)?;
                    cells.get(place)?.split("<br>").next()
                };
                let ends = of("interval").map_or("", |ends| match ends {
                    "exact" => of("change").unwrap_or_default(),
                    ends => ends,
                });
                // One sign is enough for both ends.
                let (low, high) = ends.split_once(" … ").unwrap_or((ends, ends));
                let threshold = of("threshold").and_then(|one| one.strip_suffix(" %"));
                let threshold = threshold.and_then(|one| one.parse::<f64>().ok());
                let (Some(low), Some(high), Some(threshold)) = (ratio(low), ratio(high), threshold)
                else {
                    continue;
                };
                let (least, most) = (1.0 / (1.0 + threshold / 100.0), 1.0 + threshold / 100.0);
                let is_within = |room: f64| low >= least - room && high <= most + room;
                let is_beyond = |room: f64| low > most - room || high < least + room;
                let shown = match of("verdict").unwrap_or_default() {
                    "unchanged" => is_within(ROUNDED),
                    "improved" | "regressed" => is_beyond(ROUNDED),
                    "inconclusive" => !is_within(-ROUNDED) && !is_beyond(-ROUNDED),
                    other => panic!("{other} in {line}"),
                };
                assert!(shown, "{}: {line}", page.display());
                count += 1;
            }
        }
    }
    assert!(count > 500, "{count} rows");
}

#[test]
fn what_a_gpu_says_of_llamas_serving_and_fragmentation_is_on_their_first_screens() {
    check(
        "h200-llm",
        &[
            "Tokens a second: 50,459 tokens/s (1b-full checkpointing=none), 41,364 tokens/s",
            "Decoding, a sequence: faster in 2 of 3 comparisons (+146.31 % to +198.47 %)",
        ],
    );
    check(
        "h200-serving",
        &[
            "Highest rate: 2028 requests/s (bert-highest native)",
            "Peak reserved: less in 3 of 6 comparisons (-74.33 % to -68.56 %)",
            "P99 latency: inconclusive in 5 of 5 comparisons (detectable change more than 100 %).",
        ],
    );
    check(
        "h100-fragmentation",
        &[
            "Allocations survived: lower in 1 of 14 comparisons (-2.67 %), higher in 4 of 14 \
             comparisons (× 8.48)",
            "1 ✗ claim refuted",
        ],
    );
    check(
        "h100-memory",
        &[
            "Peak allocated: less in 18 of 18 comparisons (-79.24 % to -5.08 %).",
            "3 ✗ claims refuted",
        ],
    );
    check("h100-gpus", &["Scaling efficiency", "resnet50"]);
    check("h100-gpus-shards", &["Bus bandwidth", "vit-l16-sharded"]);
    check(
        "h100-interference",
        &[
            "Scaling efficiency: 54.",
            "94.3 % (training-on-two)",
            "Processes on all GPUs: 8.362 GiB (training-on-one), 8.362 GiB (training-on-two)",
        ],
    );
    check(
        "h200-programs",
        &[
            "Throughput: inconclusive in 4 of 4 comparisons",
            "Peak reserved: unchanged in 4 of 4 comparisons.",
        ],
    );
}
