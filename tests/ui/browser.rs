//! A headless Chromium, driven over the DevTools protocol through two pipes: messages are JSON, each ended by a NUL.
//!
//! The browser wants the pipes as descriptors 3 and 4. A shell opens named pipes there, since `std` can only hand on 0 to 2.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long an answer or a condition may take; on a busy machine a browser starts slowly.
const PATIENCE: Duration = Duration::from_secs(90);

/// A browser with one page, in a folder of its own that goes away with it.
pub(crate) struct Browser {
    process: Child,
    requests: File,
    answers: Receiver<Value>,
    last: u64,
    session: Option<String>,
    /// What the page complained about: exceptions, what it wrote to the console, and what the browser refused.
    troubles: Vec<String>,
    folder: PathBuf,
}

impl Browser {
    /// Starts the Chromium that `BERTH_CHROMIUM` names.
    pub(crate) fn start(test: &str, width: u32, height: u32) -> Self {
        let chromium = std::env::var("BERTH_CHROMIUM").unwrap_or_else(|_| "chromium".to_owned());
        let folder = std::env::temp_dir().join(format!("berth-ui-{}-{test}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let pipes = ["requests", "answers"].map(|name| folder.join(name));
        let made = Command::new("mkfifo").args(&pipes).status().unwrap();
        assert!(made.success(), "mkfifo: {made}");
        let mut command = Command::new("sh");
        command.args(["-c", r#"exec "$@" 3<"$REQUESTS" 4>"$ANSWERS""#, "sh", &chromium]);
        command.args(["--headless", "--remote-debugging-pipe", "--hide-scrollbars", "--no-first-run", "--disable-gpu"]);
        command.args(["--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update"]);
        command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
        if rustix::process::geteuid().is_root() {
            // Its sandbox refuses to run as root, as tests in containers do.
            command.arg("--no-sandbox");
        }
        command.env("REQUESTS", &pipes[0]).env("ANSWERS", &pipes[1]).stdin(Stdio::null());
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let requests = File::options().write(true).open(&pipes[0]).unwrap();
        let from = File::open(&pipes[1]).unwrap();
        let (send, answers) = channel();
        std::thread::spawn(move || {
            for message in BufReader::new(from).split(0).map_while(Result::ok) {
                let Ok(message) = serde_json::from_slice(&message) else { continue };
                if send.send(message).is_err() {
                    return;
                }
            }
        });
        let mut browser = Self { process, requests, answers, last: 0, session: None, troubles: Vec::new(), folder };
        browser.open_page(width, height);
        browser
    }

    fn open_page(&mut self, width: u32, height: u32) {
        let target = self.ask("Target.createTarget", json!({"url": "about:blank"}));
        let attached = self.ask("Target.attachToTarget", json!({"targetId": target["targetId"], "flatten": true}));
        self.session = Some(attached["sessionId"].as_str().unwrap().to_owned());
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            self.ask(domain, json!({}));
        }
        self.resize(width, height);
    }

    pub(crate) fn resize(&mut self, width: u32, height: u32) {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size);
    }

    /// Shows the file `page`, with `fragment` behind it, once its script has run.
    pub(crate) fn open(&mut self, page: &Path, fragment: &str) {
        // Of another document: a new fragment alone would not read the page again.
        self.ask("Page.navigate", json!({"url": "about:blank"}));
        self.ask("Page.navigate", json!({"url": format!("file://{}{fragment}", page.display())}));
        self.wait(
            "the page has run",
            "location.protocol === 'file:' && document.documentElement.dataset.ready === 'true'",
        );
    }

    pub(crate) fn prefer(&mut self, scheme: &str) {
        let feature = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", feature);
    }

    /// The value of a JavaScript expression, a promise's once it is kept.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let asked = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.ask("Runtime.evaluate", asked);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, selector: &str) -> String {
        let quoted = Value::from(selector);
        let text = self.value(&format!("document.querySelector({quoted})?.textContent ?? '(none)'"));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until the expression is true.
    pub(crate) fn wait(&mut self, what: &str, expression: &str) {
        let began = Instant::now();
        // While a document is exchanged there is nothing to ask.
        let tried = format!("(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()");
        while self.value(&tried) != true {
            assert!(began.elapsed() < PATIENCE, "waited for: {what}; troubles: {:?}", self.troubles);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where the middle of an element is.
    pub(crate) fn middle(&mut self, selector: &str) -> (f64, f64) {
        let quoted = Value::from(selector);
        let at = self.value(&format!(
            "(() => {{ const e = document.querySelector({quoted}); e.scrollIntoView({{block: 'nearest'}}); \
             const b = e.getBoundingClientRect(); return [b.x + b.width / 2, b.y + b.height / 2] }})()"
        ));
        (at[0].as_f64().unwrap(), at[1].as_f64().unwrap())
    }

    pub(crate) fn mouse(&mut self, kind: &str, (x, y): (f64, f64)) {
        let buttons = i32::from(kind != "mouseReleased");
        let event = json!({"type": kind, "x": x, "y": y, "button": "left", "buttons": buttons, "clickCount": 1});
        self.ask("Input.dispatchMouseEvent", event);
    }

    pub(crate) fn click(&mut self, selector: &str) {
        let at = self.middle(selector);
        self.mouse("mousePressed", at);
        self.mouse("mouseReleased", at);
    }

    /// Presses and releases a key by its name and code; a key that writes is its own name.
    pub(crate) fn key(&mut self, key: &str, code: u32) {
        let text = if key.chars().count() == 1 { key } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let written = if kind == "keyDown" { text } else { "" };
            let event = json!({"type": kind, "key": key, "windowsVirtualKeyCode": code, "text": written});
            self.ask("Input.dispatchKeyEvent", event);
        }
    }

    /// Writes into what has the focus, as an input method would.
    pub(crate) fn write(&mut self, text: &str) {
        self.ask("Input.insertText", json!({"text": text}));
    }

    pub(crate) fn focus(&mut self, selector: &str) {
        let quoted = Value::from(selector);
        self.value(&format!("document.querySelector({quoted}).focus()"));
    }

    pub(crate) fn picture(&mut self) -> Vec<u8> {
        let picture = self.ask("Page.captureScreenshot", json!({"format": "png"}));
        STANDARD.decode(picture["data"].as_str().unwrap()).unwrap()
    }

    /// Every node that people with a screen reader meet: role and name.
    pub(crate) fn spoken(&mut self) -> Vec<(String, String)> {
        let tree = self.ask("Accessibility.getFullAXTree", json!({}));
        let text = |value: &Value| value["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] != true);
        nodes.map(|node| (text(&node["role"]), text(&node["name"]))).collect()
    }

    #[track_caller]
    pub(crate) fn assert_no_trouble(&mut self) {
        // What happened before is told before the answer.
        self.value("1");
        assert_eq!(self.troubles, Vec::<String>::new());
    }

    /// Sends a request, and waits for its answer.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last += 1;
        let mut request = json!({"id": self.last, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = session.as_str().into();
        }
        self.requests
            .write_all(format!("{request}\0").as_bytes())
            .expect("is this a Chromium? BERTH_CHROMIUM names it");
        loop {
            let answer = self.answers.recv_timeout(PATIENCE).unwrap_or_else(|e| panic!("{method}: no answer: {e}"));
            if answer["id"] == self.last {
                assert!(answer["error"].is_null(), "{method}: {}", answer["error"]);
                return answer["result"].clone();
            }
            if matches!(
                answer["method"].as_str(),
                Some("Runtime.exceptionThrown" | "Runtime.consoleAPICalled" | "Log.entryAdded")
            ) {
                self.troubles.push(answer["params"].to_string());
            }
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
