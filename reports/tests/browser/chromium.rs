//! Debian's Chromium, driven through the remote debugging protocol over pipes: messages of JSON, each with
//! a NUL behind it, to its file descriptor 3 and from its 4.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, ChildStdin, Command, Stdio},
    sync::mpsc::{self, Receiver, RecvTimeoutError},
    thread,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;

/// An answer or an event takes no longer, even on a machine with much else to do.
const PATIENCE: Duration = Duration::from_mins(2);

/// A running browser with one page. It ends with the value.
pub(crate) struct Browser {
    child: Child,
    requests: ChildStdin,
    messages: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// Events that nobody has asked for yet.
    events: Vec<Value>,
    /// Its profile, and what it downloads.
    home: TempDir,
}

impl Browser {
    /// Starts it with an empty page of this size.
    pub(crate) fn start(width: u32, height: u32) -> Self {
        let home = tempfile::tempdir().expect("a folder for the browser's profile");
        let log = File::create(home.path().join("log")).expect("the browser's log");
        // The shell moves the pipes to where the browser looks for them. Without its sandbox it
        // runs as root, too, and reads no page but this test's own.
        let mut child = Command::new("sh")
            .args(["-c", "exec chromium \"$@\" 3<&0 4>&1 </dev/null >&2", "sh"])
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--disable-background-networking",
                "--disable-component-update",
            ])
            .args([
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--remote-debugging-pipe",
            ])
            .arg(format!("--user-data-dir={}", home.path().display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("sh starts");
        let requests = child.stdin.take().expect("piped");
        let answers = child.stdout.take().expect("piped");
        let (sender, messages) = mpsc::channel();
        thread::spawn(move || {
            for message in BufReader::new(answers).split(0) {
                let message = message
                    .ok()
                    .and_then(|text| serde_json::from_slice(&text).ok());
                if message.is_none_or(|message| sender.send(message).is_err()) {
                    break;
                }
            }
        });
        let mut browser = Self {
            child,
            requests,
            messages,
            last: 0,
            session: None,
            events: Vec::new(),
            home,
        };
        let target = browser.call("Target.createTarget", &json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let session = browser.call("Target.attachToTarget", &attach);
        browser.session = session["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network", "Accessibility"] {
            browser.call(&format!("{domain}.enable"), &json!({}));
        }
        browser.resize(width, height);
        browser
    }

    /// Calls a method of the protocol; comes back with what it returns.
    pub(crate) fn call(&mut self, method: &str, params: &Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        // Where the browser is gone the answer that does not come says so.
        let _ = write!(self.requests, "{request}\0").and_then(|()| self.requests.flush());
        loop {
            let mut message = self.receive(method);
            if message["id"] == self.last {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.events.push(message);
        }
    }

    fn receive(&self, what: &str) -> Value {
        match self.messages.recv_timeout(PATIENCE) {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => panic!("{what}: no answer for {PATIENCE:?}"),
            Err(RecvTimeoutError::Disconnected) => {
                let log = std::fs::read_to_string(self.home.path().join("log"));
                panic!(
                    "{what}: Chromium ended, or is not there: `apt-get install chromium`; it said: {}",
                    log.unwrap_or_default()
                );
            }
        }
    }

    /// The first event of this kind that nobody has asked for yet.
    fn wait_for(&mut self, event: &str) -> Value {
        loop {
            let place = self.events.iter().position(|one| one["method"] == event);
            if let Some(place) = place {
                return self.events.remove(place)["params"].take();
            }
            let message = self.receive(event);
            self.events.push(message);
        }
    }

    /// Opens a file, with what stands behind `#` in its address.
    pub(crate) fn open(&mut self, file: &Path, fragment: &str) {
        // A page of its own even where only the fragment differs.
        self.navigate("about:blank");
        self.events.clear();
        self.navigate(&format!("file://{}{fragment}", file.display()));
    }

    fn navigate(&mut self, url: &str) {
        let gone = self.call("Page.navigate", &json!({"url": url}));
        assert!(gone["errorText"].is_null(), "{url}: {gone}");
        self.wait_for("Page.loadEventFired");
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({
            "width": width, "height": height, "deviceScaleFactor": 1, "mobile": false,
        });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        self.frame();
    }

    /// Waits until the page is drawn, and what it does when its size changes is done.
    fn frame(&mut self) {
        self.screenshot(8, 0, 8);
    }

    /// Shows the page to `screen` or `print`, in `light` or `dark`.
    pub(crate) fn show_as(&mut self, media: &str, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let params = json!({"media": media, "features": features});
        self.call("Emulation.setEmulatedMedia", &params);
    }

    /// What an expression comes to, promises awaited, as if the user had asked for it.
    pub(crate) fn evaluate(&mut self, expression: &str) -> Value {
        let params = json!({
            "expression": expression, "returnByValue": true, "awaitPromise": true,
            "userGesture": true,
        });
        let mut found = self.call("Runtime.evaluate", &params);
        let failed = &found["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        found["result"]["value"].take()
    }

    /// As [`Browser::evaluate`], of an expression that is a text.
    pub(crate) fn text(&mut self, expression: &str) -> String {
        let value = self.evaluate(expression);
        let text = value.as_str().map(str::to_owned);
        text.unwrap_or_else(|| panic!("{expression} is no text: {value}"))
    }

    /// Clicks the middle of what a selector finds first, which is brought into view before.
    pub(crate) fn click(&mut self, selector: &str) {
        let (x, y) = self.middle(selector);
        for kind in ["mousePressed", "mouseReleased"] {
            self.mouse(kind, x, y);
        }
    }

    /// Where the middle of an element is, in the window.
    pub(crate) fn middle(&mut self, selector: &str) -> (f64, f64) {
        let place = self.evaluate(&format!(
            "(() => {{ const e = document.querySelector({}); \
             e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             const r = e.getBoundingClientRect(); \
             return [r.x + r.width / 2, r.y + r.height / 2]; }})()",
            json!(selector)
        ));
        let at = |index: usize| place[index].as_f64().expect("a place");
        (at(0), at(1))
    }

    pub(crate) fn mouse(&mut self, kind: &str, x: f64, y: f64) {
        let button = if kind == "mouseMoved" { "none" } else { "left" };
        let params = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": 1});
        self.call("Input.dispatchMouseEvent", &params);
    }

    /// Presses a key that writes nothing, or a letter.
    pub(crate) fn press(&mut self, key: &str) {
        let (code, text) = match key {
            "Enter" => (13, "\r"),
            "Tab" => (9, ""),
            "Escape" => (27, ""),
            "ArrowRight" => (39, ""),
            "ArrowLeft" => (37, ""),
            "End" => (35, ""),
            letter => (0, letter),
        };
        for kind in ["keyDown", "keyUp"] {
            let params = json!({
                "type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code,
                "text": if kind == "keyDown" { text } else { "" },
            });
            self.call("Input.dispatchKeyEvent", &params);
        }
    }

    /// What the page complained of, and what it asked for besides itself.
    pub(crate) fn complaints(&mut self) -> Vec<String> {
        // Whatever was on its way has come by then.
        self.frame();
        let told = self.events.iter().filter_map(|event| {
            let params = &event["params"];
            match event["method"].as_str()? {
                "Runtime.exceptionThrown" => Some(params["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => Some(params["args"].to_string()),
                "Log.entryAdded" => Some(params["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let url = params["request"]["url"].as_str()?;
                    let is_own = params["type"] == "Document" && url.starts_with("file://");
                    (!is_own).then(|| format!("request of {url}"))
                }
                _ => None,
            }
        });
        told.collect()
    }

    /// A picture of the page between two heights, as PNG in base64.
    pub(crate) fn screenshot(&mut self, width: u32, from: u32, height: u32) -> String {
        let clip = json!({"x": 0, "y": from, "width": width, "height": height, "scale": 1});
        let params = json!({"captureBeyondViewport": true, "format": "png", "clip": clip});
        let mut taken = self.call("Page.captureScreenshot", &params);
        let data = taken["data"].take();
        data.as_str().expect("a picture").to_owned()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // The browser itself took the shell's place.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
