//! The report in a browser: Chromium without a window. Without Chromium these are
//! passed over, or fail with `POORWILL_STRICT=1`.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use common::World;
use serde_json::Value;

const SAMPLE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../bench/tests/data/bench.json"
);

/// What the reader sees, asked of the page by a script beside it. The page is in
/// a frame, as a browser's own window is never as narrow as a telephone.
const PROBE: &str = r#"<!DOCTYPE html><html><body>
<iframe id="frame" style="border:0;width:WIDTHpx;height:800px"></iframe>
<pre id="seen"></pre>
<script id="page" type="application/json">PAGE</script>
<script>
const frame = document.getElementById("frame");
frame.onload = () => {
  const page = frame.contentDocument, root = page.documentElement;
  const plots = [...page.querySelectorAll("svg")].map(svg => {
    const box = svg.getBoundingClientRect();
    return {width: box.width, height: box.height, right: box.right};
  });
  const type = [...page.querySelectorAll("svg text")].filter(text => text.textContent.trim()).map(text => text.getBoundingClientRect().height);
  const outside = [...page.querySelectorAll("svg")].flatMap(svg => {
    const box = svg.getBoundingClientRect();
    return [...svg.querySelectorAll("text")].filter(text => {
      const its = text.getBoundingClientRect();
      return its.left < box.left - 2 || its.right > box.right + 2 || its.bottom > box.bottom + 2;
    }).map(text => text.textContent.trim());
  });
  document.getElementById("seen").textContent = JSON.stringify({
    inner: frame.contentWindow.innerWidth, scroll: root.scrollWidth, plots, outside,
    smallest_type: Math.min(...type),
    ground: frame.contentWindow.getComputedStyle(page.body).backgroundColor,
    text: frame.contentWindow.getComputedStyle(page.body).color,
    plot_text: frame.contentWindow.getComputedStyle(page.querySelector("svg text")).fill,
    targets: page.querySelectorAll(".targets li").length,
  });
};
frame.srcdoc = JSON.parse(document.getElementById("page").textContent);
</script></body></html>"#;

/// The browser, unless it is not installed and need not be.
fn chromium() -> Option<PathBuf> {
    let named = std::env::var_os("POORWILL_CHROMIUM").map(PathBuf::from);
    let found = named.or_else(|| {
        [
            "/usr/bin/chromium",
            "/usr/bin/chromium-browser",
            "/usr/bin/google-chrome",
        ]
        .map(PathBuf::from)
        .into_iter()
        .find(|file| file.exists())
    });
    if found.is_none() {
        let strict = std::env::var("POORWILL_STRICT").is_ok_and(|set| set == "1");
        assert!(
            !strict,
            "no Chromium: run tools/setup, or name one in POORWILL_CHROMIUM"
        );
        eprintln!("passed over: no Chromium");
    }
    found
}

fn report(world: &World) -> String {
    let outcome = world.run(&["report", SAMPLE, "-o", "page.html"]);
    assert_eq!(outcome.code, Some(0), "{outcome:#?}");
    fs::read_to_string(world.path("page.html")).unwrap()
}

/// Opens `file` without a window and gives what became of it.
fn open(chromium: &Path, world: &World, file: &str, dark: bool) -> Output {
    let scheme = if dark { 0 } else { 1 };
    let output = Command::new(chromium)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--no-first-run",
            "--disable-background-networking",
            "--disable-extensions",
        ])
        .args([
            "--enable-logging=stderr",
            "--virtual-time-budget=5000",
            "--dump-dom",
        ])
        .arg(format!("--blink-settings=preferredColorScheme={scheme}"))
        .arg(format!(
            "--user-data-dir={}",
            world.path("profile").display()
        ))
        .arg(format!("file://{}", world.path(file).display()))
        .env("HOME", world.folder.path())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// What the page looks like in a window of `width` pixels.
fn look(chromium: &Path, world: &World, width: u32, dark: bool) -> Value {
    let page = serde_json::to_string(&report(world))
        .unwrap()
        .replace("</", "<\\/");
    let probe = PROBE
        .replace("WIDTH", &width.to_string())
        .replace("PAGE", &page);
    fs::write(world.path("probe.html"), probe).unwrap();
    let output = open(chromium, world, "probe.html", dark);
    let dom = String::from_utf8_lossy(&output.stdout);
    let seen = dom
        .split_once("<pre id=\"seen\">")
        .and_then(|(_, rest)| rest.split_once("</pre>"));
    let (seen, _) = seen.unwrap_or_else(|| panic!("the probe did not run: {dom}"));
    serde_json::from_str(seen).unwrap_or_else(|error| panic!("{error}: {seen:?}"))
}

/// Red, green and blue, added up.
fn brightness(colour: &Value) -> u32 {
    let text = colour.as_str().unwrap();
    let numbers = text.trim_start_matches("rgb(").trim_end_matches(')');
    numbers
        .split(", ")
        .map(|number| number.parse::<u32>().unwrap())
        .sum()
}

#[test]
fn opens_without_a_complaint() {
    let Some(chromium) = chromium() else { return };
    let world = World::empty();
    report(&world);
    let output = open(&chromium, &world, "page.html", false);
    let log = String::from_utf8_lossy(&output.stderr);
    let complaints: Vec<_> = log
        .lines()
        .filter(|line| line.contains("CONSOLE"))
        .collect();
    assert!(complaints.is_empty(), "{complaints:#?}");
    // The check itself sees a complaint.
    fs::write(
        world.path("bad.html"),
        "<script>console.error('seen')</script>",
    )
    .unwrap();
    let output = open(&chromium, &world, "bad.html", false);
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(log.contains("CONSOLE"), "complaints are not seen: {log}");
}

#[test]
fn fits_a_telephone() {
    let Some(chromium) = chromium() else { return };
    let world = World::empty();
    for width in [360, 412, 1280] {
        let seen = look(&chromium, &world, width, false);
        assert_eq!(seen["inner"], width, "{seen}");
        assert!(
            seen["scroll"].as_u64() <= Some(width.into()),
            "it scrolls sideways: {seen}"
        );
        let plots = seen["plots"].as_array().unwrap();
        assert!(plots.len() >= 6, "{seen}");
        for plot in plots {
            let side = |name: &str| plot[name].as_f64().unwrap();
            assert!(side("width") > 250.0 && side("height") > 80.0, "{seen}");
            assert!(side("right") <= f64::from(width), "{seen}");
        }
        assert_eq!(
            seen["outside"],
            Value::Array(Vec::new()),
            "text is cut off: {seen}"
        );
        assert!(seen["smallest_type"].as_f64() > Some(8.0), "{seen}");
        assert!(seen["targets"].as_u64() > Some(5), "{seen}");
    }
}

#[test]
fn follows_the_reader_s_choice_of_dark() {
    let Some(chromium) = chromium() else { return };
    let world = World::empty();
    let light = look(&chromium, &world, 800, false);
    let dark = look(&chromium, &world, 800, true);
    assert!(
        brightness(&light["ground"]) > 600 && brightness(&light["text"]) < 200,
        "{light}"
    );
    assert!(
        brightness(&dark["ground"]) < 120 && brightness(&dark["text"]) > 550,
        "{dark}"
    );
    assert!(brightness(&dark["plot_text"]) > 550, "{dark}");
}

#[test]
fn a_file_that_is_no_result_is_refused() {
    let world = World::empty();
    world
        .run(&["report"])
        .refuses(1, &["cannot read bench.json"]);
    fs::write(world.path("bench.json"), "{}").unwrap();
    world
        .run(&["report"])
        .refuses(1, &["not a result of `poorwill bench`"]);
    assert!(!world.path("report.html").exists());
    let outcome = world.run(&["report", SAMPLE, "-o", "no/such/folder.html"]);
    outcome.refuses(1, &["writing no/such/folder.html"]);
}

#[test]
fn is_small() {
    let world = World::empty();
    let page = report(&world);
    assert!(page.len() < 400_000, "{} bytes", page.len());
}
