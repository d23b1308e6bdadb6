//! A host as `lariat-lab host` tells it.

use measure::host::{Ability, Core, Fact, Feature, HostReport, Speed};
use measure::record::Host;

fn text(words: &str) -> String {
    words.to_owned()
}

pub(crate) fn host() -> HostReport {
    let speed = |library: &str, operation: &str, algorithm: &str, size, per_s| Speed {
        library: text(library),
        operation: text(operation),
        algorithm: text(algorithm),
        size_bytes: size,
        per_s,
    };
    HostReport {
        host: Host {
            cpu: text("AMD EPYC 7B13"),
            cpus: 2,
            memory_bytes: 8 << 30,
            kernel: text("Linux 6.8.0"),
            hypervisor: Some(text("KVM")),
            load_average: 0.42,
        },
        features: vec![Feature {
            name: text("AES-NI"),
            is_there: true,
            use_for: text("AES-GCM"),
        }],
        cores: vec![Core {
            cpu: 0,
            core: 0,
            package: 0,
            node: 0,
            cache: 0,
        }],
        mitigations: vec![Fact {
            name: text("spectre_v2"),
            value: text("Mitigation: Retpolines"),
            remedy: None,
        }],
        limits: vec![Fact {
            name: text("open files"),
            value: text("1024"),
            remedy: Some(text("raise it: ulimit -n 65536")),
        }],
        networks: Vec::new(),
        abilities: vec![Ability {
            name: text("kTLS"),
            is_there: false,
            why: text("the kernel has no module `tls`"),
            remedy: Some(text("take a kernel built with CONFIG_TLS")),
        }],
        surroundings: Vec::new(),
        speeds: vec![
            speed("aws-lc-rs 1.19", "sign", "RSA 2048", None, 2150.0),
            speed("OpenSSL 3.0.17", "sign", "RSA 2048", None, 1933.0),
            speed(
                "aws-lc-rs 1.19",
                "seal",
                "AES-128-GCM",
                Some(1024),
                2_500_000.0,
            ),
        ],
    }
}
