//! A configuration of several files, with defaults and variables of the environment.

use std::fs;

use suite::prelude::*;

/// Makes a service of a file that another includes, without what all have in common.
fn short(name: &str, service: &Service) -> String {
    let address = service.address;
    format!("[[service]]\nname = '{name}'\nfront.listen = ['{address}']\n")
}

#[test]
fn a_pipe_among_the_files_ends_nothing_and_a_variable_is_shown_by_its_name() {
    let site = Site::new();
    let folder = site.path("conf.d");
    fs::create_dir(&folder).expect("a folder");
    let pipe = folder.join("pipe.toml");
    run(Command::new("mkfifo").arg(&pipe)).success();
    let include = format!("include = {:?}\n", folder.join("*.toml"));
    let told = lariat::check(&include);
    told.assert_fails(2, &["pipe.toml: it is a named pipe"]);
    run(lariat::command().arg("check").arg(&pipe)).assert_fails(2, &["it is a named pipe"]);
    run(lariat::command().args(["import", "nginx"]).arg(&pipe)).assert_stderr("it is a named pipe");

    let text = "[[service]]\nfront = { listen = ['${KEY}'], deny = ['${KEY}'], tls = 'off' }\n\
                back.servers = ['${KEY}', '127.0.0.1:1']\nback.balance = '${KEY}'\n";
    let file = site.write("lariat.toml", text);
    let told = run(lariat::command().arg("check").arg(file).env("KEY", "hunter2 and more"));
    told.assert_fails(2, &["${KEY}"]);
    let said = format!("{}{}", told.stdout, told.stderr);
    assert!(!said.contains("hunter2"), "{said}");
}

#[test]
fn files_come_and_go_by_reload_and_variables_outlive_an_upgrade() {
    let (site, server) = (Site::new(), Server::start(Behaviour::Http("hello".into())));
    let services = [(); 2].map(|()| Service::new(&site, &server));
    let main = format!(
        "include = {:?}\n[defaults]\nfront.tls.certificates = [\"${{SITE}}/site.pem\"]\n\
         back.servers = '${{SERVER:-none}}'\n",
        site.path("conf.d/*.toml")
    );
    let folder = site.path("conf.d");
    fs::create_dir(&folder).expect("a folder");
    fs::write(folder.join("one.toml"), short("one", &services[0])).expect("a file");

    let mut command = lariat::command();
    command.env("SITE", site.path("")).env("SERVER", server.address());
    let lariat = Lariat::start_by(command, &main);
    let hello = |service: &Service| curl_tls(&site, service.address).run().success();
    assert_eq!(hello(&services[0]), "hello");

    fs::write(folder.join("two.toml"), short("two", &services[1])).expect("a file");
    lariat.reload().success();
    assert_eq!(hello(&services[1]), "hello");

    // A fault is reported in the file that holds it, and nothing changes.
    fs::write(folder.join("three.toml"), "[[service]]\nname = 'a'\nlisen = 1\n").expect("a file");
    let told = lariat.reload();
    told.assert_stderr("conf.d/three.toml:3:1");
    assert_ne!(told.code(), 0);
    fs::remove_file(folder.join("three.toml")).expect("it is there");

    fs::remove_file(folder.join("two.toml")).expect("it is there");
    _ = lariat.upgrade();
    assert_eq!(hello(&services[0]), "hello");
    assert!(TcpStream::connect(services[1].address).is_err(), "its file is gone");
}
