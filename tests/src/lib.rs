//! The vocabulary of the black-box tests: the program under test, and the real programs around it.
//!
//! Knows the product only as its users do: by command line, configuration, sockets and output.
//! Functions panic where a test cannot go on; where a test may, they return a `Result` or an
//! `Option`.
#![forbid(unsafe_code)]

mod binary;
pub mod chaos;
pub mod chromium;
pub mod client;
pub mod clock;
pub mod configuration;
pub mod curl;
pub mod desk;
pub mod ech;
pub mod example;
pub mod fixture;
pub mod footprint;
pub mod fuse;
pub mod haproxy;
pub mod hitch;
pub mod kernel;
pub mod lab;
pub mod lariat;
pub mod load;
pub mod mariadb;
pub mod metrics;
pub mod name_server;
pub mod network;
pub mod nginx;
pub mod openssl;
pub mod patience;
pub mod prelude;
pub mod probe;
pub mod process;
pub mod program;
pub mod prometheus;
pub mod proxy_header;
pub mod redis;
pub mod scripted;
pub mod service_manager;
pub mod site;
pub mod starttls;
pub mod strace;
pub mod stunnel;
pub mod tcpdump;
pub mod weather;
