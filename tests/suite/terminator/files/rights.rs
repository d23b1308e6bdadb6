//! The worker process may read the files of the folders that were named at start.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;

use suite::lariat::command;
use suite::prelude::*;
use suite::process::{open_files, status_line};

struct Scene {
    site: Site,
    base: Directory,
    service: Service,
    lariat: Lariat,
}

impl Scene {
    fn new() -> Self {
        let (site, base) = (Site::new(), Directory::new());
        base.write("files/name", "first");
        let service = Service::files(&site, &base.join("files"));
        let lariat = service.start();
        Self { site, base, service, lariat }
    }

    fn name(&self) -> String {
        curl_tls_for(&self.site, self.service.address, &["name"]).run().success()
    }

    /// Returns the configuration with another folder, or with more keys.
    fn with(&self, folder: &Path, more: &str) -> String {
        let behind = |folder: &Path| format!("files = {folder:?}\n");
        let text = self.service.toml() + more;
        text.replace(&behind(&self.base.join("files")), &behind(folder))
    }
}

#[test]
fn a_reload_keeps_the_folder() {
    let scene = Scene::new();
    scene
        .lariat
        .reload_with(&scene.with(&scene.base.join("files"), "[service.timeouts]\nidle = \"9m\"\n"));
    assert_eq!(scene.name(), "first");
    scene.base.write("files/name", "changed");
    assert_eq!(scene.name(), "changed");
}

#[test]
fn a_reload_brings_no_other_folder() {
    let scene = Scene::new();
    scene.base.write("others/name", "second");
    let refused = scene.lariat.reload_refused(&scene.with(&scene.base.join("others"), ""));
    refused.assert_stderr("may not read");
    refused.assert_stderr("hint: restart");
    assert_eq!(scene.name(), "first");
    // Not by the old name either.
    scene.lariat.configure(&scene.service.toml());
    fs::rename(scene.base.join("files"), scene.base.join("moved")).unwrap();
    fs::rename(scene.base.join("others"), scene.base.join("files")).unwrap();
    let refused = scene.lariat.reload();
    assert_eq!(refused.code(), 5, "{refused:?}");
    assert_eq!(scene.name(), "first");
}

#[test]
fn the_next_worker_process_serves_the_same_folder() {
    let scene = Scene::new();
    fs::rename(scene.base.join("files"), scene.base.join("moved")).unwrap();
    scene.lariat.replace_worker_process();
    assert_eq!(scene.name(), "first");
}

#[test]
fn a_folder_that_is_not_there_is_told_with_its_place() {
    let (site, base) = (Site::new(), Directory::new());
    for (folder, words) in [("missing", "there is no folder"), ("a-file", "is no folder")] {
        base.write("a-file", "");
        let service = Service::files(&site, &base.join(folder));
        let file = base.write("lariat.toml", service.toml());
        for what in ["check", "serve"] {
            let refused = run(command().arg(what).arg(&file));
            assert_eq!(refused.code(), 2, "{refused:?}");
            let line = format!("{}:", file.display());
            refused.assert_stderr(words);
            refused.assert_stderr(&line);
        }
    }
}

#[test]
fn a_folder_that_the_worker_process_may_not_look_into_is_told() {
    let (site, base) = (Site::new(), Directory::new());
    base.write("files/name", "first");
    fs::set_permissions(base.join("files"), Permissions::from_mode(0o600)).unwrap();
    let service = Service::files(&site, &base.join("files"));
    let file = base.write("lariat.toml", service.toml());
    let checked = run(command().arg("check").arg(&file));
    let is_told =
        checked.stderr.contains("warning:") && checked.stderr.contains("may not look into");
    assert!(is_told, "{checked:?}");
    assert_eq!(checked.code(), 0);
    fs::set_permissions(base.join("files"), Permissions::from_mode(0o755)).unwrap();
    let checked = run(command().arg("check").arg(&file));
    assert_eq!(checked.code(), 0);
    assert!(!checked.stderr.contains("may not look into"), "{checked:?}");
}

#[test]
fn the_sandbox_stands_around_the_folder() {
    let scene = Scene::new();
    let data = scene.lariat.worker_process();
    assert_eq!(status_line(data, "Seccomp"), "2");
    if geteuid().is_root() {
        // The folder itself, and nothing beneath it while nobody asks.
        let mut within = open_files(data);
        within.retain(|link| link.starts_with(scene.base.path()));
        within.dedup();
        assert_eq!(within, [scene.base.join("files")]);
    }
    assert_eq!(scene.name(), "first");
}
