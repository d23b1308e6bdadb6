//! Every example passes `lariat check`, given the certificates that it names.

use suite::lariat::command;
use suite::prelude::*;

fn write_certificates(site: &Site) {
    let (place, authority) = (&site.directory, &site.authority);
    for name in ["site.pem", "db.pem", "ecdsa.pem", "more/another.pem"] {
        site.leaf(&["localhost"]).write(place, &format!("certs/{name}"));
    }
    let rsa = authority.leaf(&["localhost"]).key(Key::Rsa2048).issue();
    rsa.write_apart(place, "certs/rsa");
    authority.write(place, "certs/clients-ca.pem");
    authority.write(place, "certs/internal-ca.pem");
    let revoked = authority.client("revoked");
    place.write("pages/index.html", "hello");
    place.write("cluster.key", "k".repeat(64));
    place.write("certs/clients.crl", authority.revocation_list(&[&revoked]));
}

#[test]
fn each_passes_the_check() {
    let site = Site::new();
    write_certificates(&site);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let name = path.file_name().unwrap();
        let copy = site.write(name, fs::read(&path).unwrap());
        let answer = run(command().arg("check").arg(copy));
        assert_eq!(answer.code(), 0, "{name:?}: {answer:?}");
        count += 1;
    }
    assert!(count >= 9, "{count}");
}
