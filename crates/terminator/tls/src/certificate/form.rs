//! Forms other than PEM blocks in which certificates and keys are kept: how each is recognised, and
//! the command that makes PEM of it.

use x509_parser::asn1_rs::Any;
use x509_parser::prelude::FromDer;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ForeignForm {
    /// No byte.
    Empty,
    /// Certificates in a PKCS #7 (CMS) bundle, as PEM.
    Pkcs7,
    Pkcs7Der,
    /// Certificates and keys in an archive of PKCS #12.
    Pkcs12,
    JavaKeyStore,
    OpenSshKey,
    PuttyKey,
    Pgp,
    Request,
    /// The public half of a key.
    PublicKey,
    /// PEM that was encoded in Base64 once more, as in a Secret of Kubernetes.
    EncodedTwice,
    /// A Secret of Kubernetes as YAML or JSON, with PEM in Base64 in it.
    KubernetesSecret,
    /// JSON with PEM in Base64 in it, as Traefik keeps what it was issued.
    Json,
    /// HTML or another markup: the answer of a server that had no certificate.
    WebPage,
    /// Compressed; the command that unpacks it.
    Packed(&'static str),
    /// A kind of certificate that TLS does not know.
    OtherCertificate,
}

/// The labels of blocks, by the words in them; the first that fits counts.
const LABELS: &[(&str, ForeignForm)] = &[
    ("PKCS7", ForeignForm::Pkcs7),
    ("PKCS #7", ForeignForm::Pkcs7),
    ("CMS", ForeignForm::Pkcs7),
    ("PKCS12", ForeignForm::Pkcs12),
    ("OPENSSH PRIVATE KEY", ForeignForm::OpenSshKey),
    ("PGP", ForeignForm::Pgp),
    ("CERTIFICATE REQUEST", ForeignForm::Request),
    ("PUBLIC KEY", ForeignForm::PublicKey),
    ("CERTIFICATE", ForeignForm::OtherCertificate),
];

/// The first bytes of files. In BER an archive may be of indefinite length.
const OPENINGS: &[(&[u8], ForeignForm)] = &[
    (b"\x30\x80\x02\x01\x03", ForeignForm::Pkcs12),
    (b"\x30\x80\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02", ForeignForm::Pkcs7Der),
    (b"\xfe\xed\xfe\xed", ForeignForm::JavaKeyStore),
    (b"\xce\xce\xce\xce", ForeignForm::JavaKeyStore),
    (b"PuTTY-User-Key-File", ForeignForm::PuttyKey),
    (b"ssh-", ForeignForm::PublicKey),
    (b"ecdsa-sha2-", ForeignForm::PublicKey),
    (b"\x1f\x8b", ForeignForm::Packed("gunzip -c")),
    (b"PK\x03\x04", ForeignForm::Packed("unzip -p")),
    (b"\xfd7zXZ\x00", ForeignForm::Packed("xz -dc")),
    (b"BZh", ForeignForm::Packed("bunzip2 -c")),
    (b"\x28\xb5\x2f\xfd", ForeignForm::Packed("zstd -dc")),
];

/// The words by which a manifest says that it is a Secret.
const SECRETS: [&[u8]; 3] = [b"kind: Secret\n", b"\"kind\": \"Secret\"", b"\"kind\":\"Secret\""];

/// `-----BEGIN` in Base64.
const BEGIN_IN_BASE64: &[u8] = b"LS0tLS1CRUdJT";

/// The content types signedData and data (RFC 5652 section 5.1), as DER.
const SIGNED_DATA: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x07\x02";

impl ForeignForm {
    pub(super) fn of_label(label: &str) -> Option<Self> {
        let found = LABELS.iter().find(|(words, _)| label.contains(words));
        found.map(|(_, form)| *form)
    }

    pub(super) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        if bytes.trim_ascii().is_empty() {
            return Some(Self::Empty);
        }
        let opening = OPENINGS.iter().find(|(first, _)| bytes.starts_with(first));
        let element = || Any::from_der(bytes).ok().map(|(_, sequence)| sequence.data);
        let has = |words: &[u8]| bytes.windows(words.len()).any(|part| part == words);
        if SECRETS.iter().any(|words| has(words)) {
            return Some(Self::KubernetesSecret);
        }
        match bytes.trim_ascii_start()[0] {
            b'{' | b'[' if has(BEGIN_IN_BASE64) => return Some(Self::Json),
            b'<' => return Some(Self::WebPage),
            _ => {}
        }
        opening.map(|(_, form)| *form).or_else(|| match element()? {
            body if body.starts_with(SIGNED_DATA) => Some(Self::Pkcs7Der),
            // Version 3 (RFC 7292 section 4).
            [2, 1, 3, ..] => Some(Self::Pkcs12),
            _ => None,
        })
    }

    /// Whether a certificate that is meant to be served may be in it.
    pub(super) fn holds_certificate(self) -> bool {
        matches!(self, Self::Pkcs7 | Self::Pkcs12 | Self::OtherCertificate)
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Pkcs7 | Self::Pkcs7Der => "PKCS #7",
            Self::Pkcs12 => "PKCS #12",
            Self::JavaKeyStore => "a Java key store",
            Self::OpenSshKey => "a key of OpenSSH",
            Self::PuttyKey => "a key of PuTTY",
            Self::Pgp => "of OpenPGP, which TLS does not speak",
            Self::Request => "a certificate request",
            Self::PublicKey => "a public key",
            Self::EncodedTwice => "encoded in Base64 once more",
            Self::KubernetesSecret => "a manifest of a Kubernetes Secret",
            Self::Json => "JSON, with PEM in Base64 in it",
            Self::WebPage => "a web page",
            Self::Packed(_) => "compressed",
            Self::OtherCertificate => "a certificate of a kind that TLS does not know",
        }
    }

    /// How PEM is made of the file at `place`.
    pub(super) fn remedy(self, place: &str) -> String {
        match self {
            Self::Empty => "name the file that the CA delivered".to_owned(),
            Self::Pkcs7 => {
                format!("convert it with `openssl pkcs7 -in {place} -print_certs -out CHAIN.pem`")
            }
            Self::Pkcs7Der => format!(
                "convert it with `openssl pkcs7 -inform der -in {place} -print_certs -out \
                 CHAIN.pem`"
            ),
            Self::Pkcs12 => format!(
                "convert it with `openssl pkcs12 -in {place} -nodes -out PEM` (with `-legacy` if \
                 OpenSSL 3 says `unsupported`, as of exports by older Windows) and protect the \
                 result by file mode"
            ),
            Self::JavaKeyStore => format!(
                "convert it with `keytool -importkeystore -srckeystore {place} -destkeystore \
                 STORE.p12 -deststoretype PKCS12` and `openssl pkcs12 -in STORE.p12 -nodes -out \
                 PEM`"
            ),
            Self::OpenSshKey => format!(
                "convert a copy of it in place with `ssh-keygen -p -m PEM -N '' -f {place}`; one \
                 of Ed25519 cannot be, so get a certificate for a new key"
            ),
            Self::PuttyKey => format!(
                "convert it with `puttygen {place} -O private-openssh -o KEY` and \
                 `ssh-keygen -p -m PEM -N '' -f KEY`"
            ),
            Self::Request => "name the certificate that the CA made of it".to_owned(),
            Self::PublicKey => "name the private key that it belongs to".to_owned(),
            Self::KubernetesSecret => {
                "write `kubectl get secret NAME -o jsonpath='{.data.tls\\.crt}' | base64 -d` into a \
                 file and `tls\\.key` so into another, or mount the Secret and name its folder"
                    .to_owned()
            }
            Self::Json => format!(
                "write its certificate into a file and its key into another, in Traefik's form by \
                 `jq -r '.[].Certificates[0].certificate' {place} | base64 -d` and \
                 `jq -r '.[].Certificates[0].key' {place} | base64 -d`"
            ),
            Self::WebPage => "read it: it may say why the certificate was not delivered".to_owned(),
            Self::Packed(unpack) => format!("unpack it with `{unpack} {place} > PEM`"),
            Self::EncodedTwice => format!("decode it with `base64 -d {place} > PEM`"),
            Self::Pgp | Self::OtherCertificate => {
                "name an X.509 certificate (BEGIN CERTIFICATE) and its key".to_owned()
            }
        }
    }
}
