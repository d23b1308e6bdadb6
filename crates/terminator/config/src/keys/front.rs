//! The rows of a service and its front, but for TLS.

use std::time::Duration;

use options::{Key, Kind, key};

use super::service::{KEEPALIVE_MAX, STARTTLS};

/// The keys of `service` and `service.front`.
pub(super) const FRONT: &[Key] = &[
    key("service", Kind::Table)
        .many()
        .help(
            "A front, a back, and limits for the connections between them. A file may \
             have many services.",
        )
        .example("[[service]]"),
    key("service.name", Kind::Text("NAME"))
        .default("main")
        .flag("name")
        .help(
            "The name in logs, metrics and the status: at most 64 letters, digits, `.`, \
             `_` and `-`. It must be unique, so with several services each needs one.",
        )
        .example(r#"name = "web""#),
    key("service.front", Kind::Table)
        .help("The side that clients connect to.")
        .example(r#"front = { listen = ["[::]:443"], tls = { certificates = ["site.pem"] } }"#),
    key("service.front.listen", Kind::Address)
        .many()
        .flag("listen")
        .help(
            "Addresses to listen at, which services may share: see `names`. Each is an IP address with a port (`*:443` and \
             `[::]:443` listen on all of IPv6 and IPv4), `unix:/path`, `unix:@name` in \
             the abstract namespace, or `fd:name` for the sockets that a service manager hands \
             over by that name. With port 0 the kernel chooses a port, which the \
             status shows. A socket at a path has mode 0666: the permissions of its \
             directory limit who may connect.",
        )
        .example(r#"listen = ["[::]:443", "unix:/run/lariat/web.sock"]"#),
    key("service.front.names", Kind::Text("NAME"))
        .many()
        .absent("all names that no other service at the address has, and clients without one")
        .flag("names")
        .help(
            "Server names whose clients this service is for, where several services listen at one \
             address. `*.example` means all names beneath it. An exact name comes before a \
             wildcard, a long wildcard before a short one. What is for no service is refused with \
             the alert `unrecognized_name`.",
        )
        .example(r#"names = ["shop.example", "*.shop.example"]"#),
    key("service.front.protocols", Kind::Text("PROTOCOL"))
        .many()
        .absent("clients are chosen by their server names alone")
        .flag("protocols")
        .help(
            "Application protocols (ALPN), one of which a client must offer for this service. Of \
             services with the same name it comes before the one without `protocols`.",
        )
        .example(r#"protocols = ["acme-tls/1"]"#),
    key("service.front.redirect", Kind::Text("https[:PORT]"))
        .absent("requests go to the back")
        .flag("redirect")
        .help(
            "For port 80: requests of plain HTTP/1.1 are answered by the address of the same \
             resource by https, with 301 for GET and HEAD and 308 for other methods. The host is \
             that of the request, and the port 443, or the one that is named. The service needs \
             no `back`. With `back.files`, challenges of ACME's `http-01` are served from \
             `.well-known/acme-challenge/` in that folder, and what is not there is redirected.",
        )
        .example(r#"redirect = "https""#),
    key("service.front.starttls", Kind::Table)
        .absent("clients begin with TLS, if the service has any")
        .shorthand("protocol")
        .help(
            "A protocol whose clients begin in plaintext and ask for TLS. The server gets \
             plaintext, or TLS by `back.tls`.",
        )
        .example(r#"starttls = { protocol = "smtp", policy = "optional" }"#),
    key("service.front.starttls.protocol", Kind::Choice(STARTTLS))
        .flag("starttls")
        .help(
            "The protocol. Its offer of TLS is added to what the server offers, and left out under \
             TLS. Of `ftp` the control connection is protected, and no data connection. \
             `front.tls` says how TLS is terminated; `timeouts.handshake` bounds the conversation \
             too.",
        )
        .example(r#"protocol = "smtp""#),
    key(
        "service.front.starttls.policy",
        Kind::Choice(&["required", "optional"]),
    )
    .default("required")
    .flag("starttls-policy")
    .help(
        "What becomes of clients that do not ask for TLS: they are refused in the words of the \
         protocol (`required`), or relayed as they are (`optional`).",
    )
    .example(r#"policy = "optional""#),
    key("service.front.accept-proxy", Kind::Network)
        .many()
        .absent("no PROXY header is expected")
        .flag("accept-proxy")
        .help(
            "Networks whose connections must begin with a PROXY header, version 1 or 2. A \
             header from any other address ends the connection. `unix` means every Unix \
             socket.",
        )
        .example(r#"accept-proxy = ["10.0.0.0/8", "unix"]"#),
    key("service.front.allow", Kind::Networks)
        .many()
        .absent("all may connect")
        .flag("allow")
        .help(
            "Networks that alone may connect, or files that list them: a network per line, `#` and \
             `;` begin a comment. Where a PROXY header must come, the client's address in it \
             counts. Others are reset, and logged as `source-denied`.",
        )
        .example(r#"allow = ["10.0.0.0/8", "unix"]"#),
    key("service.front.deny", Kind::Networks)
        .many()
        .absent("none are denied")
        .flag("deny")
        .help(
            "Networks that may not connect, even if they are allowed; written as `allow`. Files are \
             read again by a reload, and one with a broken line changes nothing.",
        )
        .example(r#"deny = ["192.0.2.0/24", "deny.txt"]"#),
    key(
        "service.front.keepalive",
        Kind::Duration(Duration::ZERO, KEEPALIVE_MAX),
    )
    .default("2m")
    .flag("keepalive")
    .help(
            "Time without a byte after which the kernel asks whether the client is still there \
             (TCP keepalive), in whole seconds; 0 turns that off. One that answers none of \
             four probes in as much time again is dropped and logged as \
             `client-unreachable`. Two minutes keep the entries of most NATs alive.",
        )
    .example(r#"keepalive = "30s""#),
    key("service.front.interface", Kind::Text("NAME"))
    .absent("any interface")
    .flag("interface")
    .help(
            "The only network interface by which clients come in to the IP addresses of \
             `listen` (SO_BINDTODEVICE), as HAProxy's `interface`.",
        )
    .example(r#"interface = "eth0""#),
    key("service.front.mptcp", Kind::Boolean)
    .default("false")
    .flag("mptcp")
    .help(
            "Whether clients may use several paths at once (Multipath TCP, RFC 8684). Others \
             speak TCP as ever, as do all where the kernel has no MPTCP. The kernel does not \
             encrypt for connections of several paths.",
        )
    .example("mptcp = true"),
    key("service.front.defer-accept", Kind::Boolean)
    .default("false")
    .flag("defer-accept")
    .help(
            "Whether the kernel keeps a new connection of TCP until its first bytes are there, for \
             a second at most (TCP_DEFER_ACCEPT), as HAProxy's `defer-accept` and nginx' \
             `deferred`. A worker that is not busy wakes less often then. Not for protocols \
             in which the server speaks first.",
        )
    .example("defer-accept = true"),
];
