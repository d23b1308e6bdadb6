//! `lariat ech show`: what DNS is to publish of the keys of a configuration.

use base64ct::{Base64, Encoding};
use config::{Diagnostic, Disk};
use proxy::options::{EchOptions, Options};
use serde_json::json;
use tls::ech::EchKeys;
use wire::date::civil_from_days;
use wire::ech::config_list;

use super::args::ConfigArguments;
use super::console::{Console, Exit, print};

/// How long resolvers may keep a record, in seconds: less than any rotation lasts.
const TTL_SECONDS: u32 = 1800;

pub(super) fn show(
    arguments: ConfigArguments,
    is_json: bool,
    console: Console,
) -> Result<Exit, String> {
    let told = |diagnostics: Vec<Diagnostic>| {
        console.diagnostics(&diagnostics);
        Ok(Exit::Usage)
    };
    let source = match arguments.source()?.read(&mut Disk) {
        Ok(source) => source,
        Err(diagnostics) => return told(diagnostics),
    };
    let plane = match config::load(&source, &mut Disk) {
        Ok(loaded) => loaded.settings.plane,
        Err(diagnostics) => return told(diagnostics),
    };
    let Some(ech) = &plane.ech else {
        console.error("the configuration has no `ech`");
        console.hint("lariat help ech");
        return Ok(Exit::Failed);
    };
    let keys = EchKeys::new(&ech.public_name, ech.keys.clone());
    let (configs, until) = keys.published();
    let list = Base64::encode_string(&config_list(&configs));
    let names = names(ech, &plane);
    if is_json {
        let record = |name: &String| {
            let value = format!("1 . ech={list}");
            json!({ "name": name, "type": "HTTPS", "ttl": TTL_SECONDS, "content": value })
        };
        let records: Vec<_> = names.iter().map(record).collect();
        let public_name = configs.first().map(|one| &one.public_name);
        let document = json!({
            "public_name": public_name,
            "config_list": list,
            "until_seconds": until,
            "records": records,
        });
        print(format_args!("{document:#}\n"));
        return Ok(Exit::Success);
    }
    print(format_args!("; ECHConfigList: {list}\n"));
    if let Some(until) = until {
        let (year, month, day) = civil_from_days(until / 86_400);
        print(format_args!("; to be published until {year:04}-{month:02}-{day:02} (UTC)\n"));
    }
    for name in &names {
        print(format_args!("{name}. {TTL_SECONDS} IN HTTPS 1 . ech=\"{list}\"\n"));
    }
    Ok(Exit::Success)
}

/// The names that are behind the front.
fn names(ech: &EchOptions, plane: &Options) -> Vec<String> {
    let hidden = plane.services.iter().filter(|one| ech.services.contains(&one.name));
    hidden.flat_map(|one| one.front.names.iter().map(ToString::to_string)).collect()
}
