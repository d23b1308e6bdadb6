//! Makes a container image from nothing: the programs, the libraries that they need, and a user.
//!
//! The form is the layout of OCI (image-spec 1.1), with the list that old `docker load` needs.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value as Json, json};

use super::build::{AUTHORITIES, Dist, run_all, said};

/// User of the image; "nonroot" of other images has the same number.
const USER: u32 = 65532;

/// Makes the archive of the image.
///
/// # Errors
/// Fails if a library cannot be found, or a tool fails.
pub(super) fn run(dist: &Dist) -> Result<()> {
    let (architecture, _) = dist.architectures()?;
    let work = dist.output.join("image");
    let blobs = work.join("layout/blobs/sha256");
    fs::create_dir_all(&blobs)?;
    fill(dist, &work.join("root"))?;
    let layer = work.join("layer.tar");
    run_all(dist.tar(&work.join("root"), &layer).arg("."))?;
    let contents = digest(&layer)?;
    dist.gzip(&layer, &work.join("layer.tar.gz"))?;
    let layer = blob(&blobs, &work.join("layer.tar.gz"))?;
    let created = dist.date("%Y-%m-%dT%H:%M:%SZ")?;
    let config = put_json(
        &blobs,
        &json!({
            "architecture": architecture,
            "os": "linux",
            "created": created,
            "config": {
                "User": format!("{USER}:{USER}"),
                "Entrypoint": ["/usr/bin/lariat"],
                "Cmd": ["serve", "/etc/lariat/lariat.toml"],
                "Env": ["PATH=/usr/bin", "XDG_RUNTIME_DIR=/run"],
                "StopSignal": "SIGTERM",
                // Docker's key, whose name OCI reserves; times are in nanoseconds.
                "Healthcheck": {
                    "Test": ["CMD", "lariat", "status"],
                    "Interval": 10_000_000_000_u64,
                    "Timeout": 5_000_000_000_u64,
                },
                "Volumes": { "/run/lariat": {} },
                "Labels": labels(dist),
            },
            "rootfs": { "type": "layers", "diff_ids": [format!("sha256:{contents}")] },
            "history": [{ "created": created, "created_by": "cargo xtask dist" }],
        }),
    )?;
    let descriptor = |kind: &str, (digest, size): &(String, u64)| {
        let media = format!("application/vnd.oci.image.{kind}");
        json!({ "mediaType": media, "digest": format!("sha256:{digest}"), "size": size })
    };
    let manifest = put_json(
        &blobs,
        &json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config),
            "layers": [descriptor("layer.v1.tar+gzip", &layer)],
            "annotations": labels(dist),
        }),
    )?;
    let mut listed = descriptor("manifest.v1+json", &manifest);
    listed["platform"] = json!({ "architecture": architecture, "os": "linux" });
    let tag = format!("lariat:{}", dist.version);
    listed["annotations"] = json!({ "org.opencontainers.image.ref.name": tag });
    let layout = work.join("layout");
    write_index(&layout, &tag, &listed, [&config.0, &layer.0])?;
    let file = format!("lariat-{}-{architecture}.oci.tar", dist.version);
    run_all(dist.tar(&layout, &dist.output.join(file)).arg("."))?;
    Ok(fs::remove_dir_all(work)?)
}

/// Writes the files that describe the layout; the last is for old versions of `docker load`.
fn write_index(
    layout: &Path,
    tag: &str,
    manifest: &Json,
    [config, layer]: [&str; 2],
) -> Result<()> {
    let index = json!({ "schemaVersion": 2, "manifests": [manifest] });
    let list = json!([{
        "Config": format!("blobs/sha256/{config}"),
        "RepoTags": [tag],
        "Layers": [format!("blobs/sha256/{layer}")],
    }]);
    let version = json!({ "imageLayoutVersion": "1.0.0" });
    for (name, content) in [("oci-layout", version), ("index.json", index), ("manifest.json", list)]
    {
        fs::write(layout.join(name), content.to_string())?;
    }
    Ok(())
}

fn labels(dist: &Dist) -> Json {
    json!({
        "org.opencontainers.image.title": "lariat",
        "org.opencontainers.image.description": "Terminates TLS in front of any TCP service",
        "org.opencontainers.image.version": dist.version,
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    })
}

fn fill(dist: &Dist, root: &Path) -> Result<()> {
    let machine = dist.triple.split('-').next().unwrap_or_default();
    let libraries = format!("usr/lib/{machine}-linux-gnu");
    for folder in
        ["etc/lariat", "etc/ssl/certs", "run/lariat", "tmp", "usr/bin", "usr/lib64", &libraries]
    {
        fs::create_dir_all(root.join(folder))?;
    }
    // Directory of the status socket: everyone may write there, since all files are root's.
    for folder in ["run/lariat", "tmp"] {
        fs::set_permissions(root.join(folder), fs::Permissions::from_mode(0o1777))?;
    }
    symlink("usr/lib", root.join("lib"))?;
    symlink("usr/lib64", root.join("lib64"))?;
    fs::write(root.join("etc/passwd"), format!("lariat:x:{USER}:{USER}::/:/nologin\n"))?;
    fs::write(root.join("etc/group"), format!("lariat:x:{USER}:\n"))?;
    let authorities = Path::new("/").join(AUTHORITIES);
    fs::copy(&authorities, root.join(AUTHORITIES)).context(AUTHORITIES)?;
    let doc = "usr/share/doc";
    let programs = ["lariat", "lariat-lab"].map(|name| dist.stage().join("usr/bin").join(name));
    for program in &programs {
        run_all(Command::new("cp").arg(program).arg(root.join("usr/bin")))?;
    }
    fs::create_dir_all(root.join(doc))?;
    let from = dist.stage().join(doc).join("lariat");
    run_all(Command::new("cp").arg("-r").arg(from).arg(root.join(doc)))?;
    for name in needed(&programs)? {
        let places = [format!("/lib/{machine}-linux-gnu"), format!("/usr/{machine}-linux-gnu/lib")];
        let mut found = places.iter().map(|place| Path::new(place).join(&name));
        let found = found.find(|path| path.exists()).with_context(|| format!("no {name}"))?;
        // The program contains the path of the dynamic loader.
        let to = match name.strip_prefix("ld-linux-x86-64") {
            Some(_) => Path::new("usr/lib64").join(&name),
            None if name.starts_with("ld-linux") => Path::new("usr/lib").join(&name),
            None => Path::new(&libraries).join(&name),
        };
        fs::copy(found, root.join(to))?;
    }
    Ok(())
}

/// Returns the names of the programs' libraries, and of the dynamic loader.
fn needed(programs: &[std::path::PathBuf]) -> Result<Vec<String>> {
    let text = said(Command::new("readelf").arg("--dynamic").arg("--wide").args(programs))?;
    let names = text.lines().filter(|line| line.contains("(NEEDED)"));
    let names = names.filter_map(|line| line.split(['[', ']']).nth(1).map(str::to_owned));
    let mut names: Vec<_> = names.collect();
    let text = said(Command::new("readelf").arg("--program-headers").args(programs))?;
    let loaders = text.split("program interpreter: ").skip(1);
    let loaders = loaders.filter_map(|text| text.split(']').next()?.rsplit('/').next());
    names.extend(loaders.map(str::to_owned));
    names.sort();
    names.dedup();
    Ok(names)
}

fn digest(path: &Path) -> Result<String> {
    let line = said(Command::new("sha256sum").arg(path))?;
    Ok(line.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Moves a file among the blobs; returns its digest and its size in bytes.
fn blob(blobs: &Path, path: &Path) -> Result<(String, u64)> {
    let digest = digest(path)?;
    let size = fs::metadata(path)?.len();
    fs::rename(path, blobs.join(&digest))?;
    Ok((digest, size))
}

fn put_json(blobs: &Path, document: &Json) -> Result<(String, u64)> {
    let path = blobs.join("new");
    fs::write(&path, document.to_string())?;
    blob(blobs, &path)
}
