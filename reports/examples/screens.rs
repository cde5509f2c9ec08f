//! Takes pictures of pages, to look at them: wide and as wide as a telephone, light, dark, grey
//! and as printed, in pieces: `cargo run -p reports --example screens -- FOLDER FILE.html…`.

use std::{error::Error, fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::json;

#[path = "../tests/browser/chromium.rs"]
#[expect(dead_code, reason = "the tests do more than look")]
mod chromium;

/// Pixels of the page in one picture.
const PIECE: u32 = 2000;

const SHOWN: [(&str, u32, &str, &str); 6] = [
    ("light", 1400, "screen", "light"),
    ("dark", 1400, "screen", "dark"),
    ("print", 1000, "print", "light"),
    ("grey", 1400, "screen", "light"),
    ("phone", 390, "screen", "light"),
    ("phone-dark", 390, "screen", "dark"),
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().ok_or("give the folder to write to")?;
    fs::create_dir_all(&out)?;
    let mut browser = chromium::Browser::start(1400, 900);
    for file in arguments {
        let file = fs::canonicalize(file)?;
        let name = |path: Option<&Path>| {
            let name = path.and_then(Path::file_name).unwrap_or_default();
            name.to_string_lossy().into_owned()
        };
        let name = name(file.parent());
        browser.open(&file, "");
        for (kind, width, media, scheme) in SHOWN {
            browser.resize(width, 900);
            browser.show_as(media, scheme);
            let blind = if kind == "grey" {
                "achromatopsia"
            } else {
                "none"
            };
            browser.call(
                "Emulation.setEmulatedVisionDeficiency",
                &json!({"type": blind}),
            );
            let tall = browser.evaluate("document.documentElement.scrollHeight");
            let tall = tall.as_f64().ok_or("no height")?;
            for (number, from) in (0..).zip((0..).step_by(PIECE as usize)) {
                if f64::from(from) >= tall {
                    break;
                }
                let picture = BASE64_STANDARD.decode(browser.screenshot(width, from, PIECE))?;
                let file = format!("{name}-{kind}-{number:02}.png");
                fs::write(Path::new(&out).join(file), picture)?;
            }
        }
    }
    Ok(())
}
