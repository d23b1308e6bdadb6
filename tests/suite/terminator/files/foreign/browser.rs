//! A browser with a page of files: pictures, and a sound that is played from its middle.

use suite::chromium::dump_page;
use suite::prelude::*;

/// Samples a second, of one byte each.
const RATE: u32 = 8000;

/// Longer than what a browser fetches ahead.
const SECONDS: u32 = 3000;

/// Makes a WAV file: a hum.
fn sound() -> Vec<u8> {
    let length = RATE * SECONDS;
    let mut wav = Vec::new();
    wav.extend(b"RIFF");
    wav.extend((36 + length).to_le_bytes());
    wav.extend(b"WAVEfmt ");
    wav.extend(16_u32.to_le_bytes());
    for short in [1_u16, 1] {
        wav.extend(short.to_le_bytes());
    }
    for long in [RATE, RATE] {
        wav.extend(long.to_le_bytes());
    }
    for short in [1_u16, 8] {
        wav.extend(short.to_le_bytes());
    }
    wav.extend(b"data");
    wav.extend(length.to_le_bytes());
    wav.extend((0..length).map(|n| if n % 80 < 40 { 120 } else { 136 }));
    wav
}

/// Makes a BMP file without compression, of this width and height, in one colour.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let row_bytes = (width * 3).next_multiple_of(4);
    let bytes = row_bytes * height;
    let mut bmp = Vec::new();
    bmp.extend(b"BM");
    for long in [54 + bytes, 0, 54, 40, width, height] {
        bmp.extend(long.to_le_bytes());
    }
    for short in [1_u16, 24] {
        bmp.extend(short.to_le_bytes());
    }
    for long in [0, bytes, 2835, 2835, 0, 0] {
        bmp.extend(long.to_le_bytes());
    }
    bmp.resize((54 + bytes) as usize, 0x40);
    bmp
}

const PAGE: &str = r#"<!doctype html><title>files</title><body>
<script>
const say = (words) => document.body.append(words + "; ");
for (let n = 1; n <= 12; n++) {
  const image = new Image();
  image.onload = () => say("picture " + image.naturalWidth);
  image.onerror = () => say("no picture " + n);
  image.src = "picture-" + n + ".bmp";
}
const sound = new Audio("sound.wav");
let known = false;
const tell = (words) => { known = true; say(words); };
sound.preload = "metadata";
sound.onloadedmetadata = () => { sound.currentTime = 2500; };
sound.onseeked = () => tell("heard from " + sound.currentTime);
sound.onerror = () => tell("no sound " + sound.error.message);
// The time of a page without a screen flies, but not while it fetches something.
const rest = async () => {
  for (let n = 0; n < 5000 && !known; n++) await fetch("index.html?" + n, { cache: "no-store" });
};
rest();
</script>"#;

#[test]
fn chromium_shows_pictures_and_seeks_in_a_sound() {
    let (site, folder) = (Site::new(), Directory::new());
    folder.write("index.html", PAGE);
    folder.write("sound.wav", sound());
    (1..=12).for_each(|n| {
        folder.write(format!("picture-{n}.bmp"), picture(100 + n, 200));
    });
    let service = Service::files(&site, folder.path());
    let lariat = service.start();
    let url = format!("https://localhost:{}/", service.address.port());
    let page = dump_page(&url, 20_000);
    for n in 1..=12 {
        assert_has(&page, &format!("picture {}; ", 100 + n));
    }
    assert_has(&page, "heard from 2500");
    // The browser did not fetch everything before the middle.
    let down = [("direction", "backend-to-client")];
    let sent = lariat.sum("lariat_relayed_bytes_total", &down);
    assert!(sent < f64::from(RATE * SECONDS), "{sent}");
}
