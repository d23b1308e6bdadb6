//! The page of known records.

mod made;

#[test]
fn written_for_looking_at() {
    let dir = std::path::Path::new("/tmp/report-look");
    std::fs::create_dir_all(dir).unwrap();
    let all = [made::ramp(), made::keep_alive(), made::failing()];
    let write = |name: &str, records: &[measure::record::Record]| {
        std::fs::write(dir.join(name), report::page::html(records)).unwrap();
    };
    write("ramp.html", &all[..1]);
    write("keep.html", &all[1..2]);
    write("failing.html", &all[2..]);
    write("long.html", &[made::long(10_000)]);
    write("empty.html", &[made::empty()]);
    write("one.html", &[made::one_second()]);
    write("hostile.html", &[made::hostile()]);
    use measure::kind::Kind;
    write(
        "many.html",
        &[
            made::resumed(Kind::SessionId, 1),
            made::resumed(Kind::Ticket, 2),
            made::resumed(Kind::Psk, 3),
            made::resumed(Kind::Psk, 4),
        ],
    );
    for drawing in report::drawings::of_record(&all[0]) {
        std::fs::write(dir.join(format!("{}.svg", drawing.name)), drawing.svg).unwrap();
    }
}
