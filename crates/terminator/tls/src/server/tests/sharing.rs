//! Services with the same files, and the objects that they share.

use super::*;
use crate::options::ExpiredLists;

/// Returns the first certificate of a service.
fn certificate_of(server: &Server) -> Arc<Certificate> {
    Arc::clone(&server.certificates()[0])
}

/// Reports whether both services verify clients with the same verifier.
fn verify_alike(one: &Server, other: &Server) -> bool {
    let chains = |server: &Server| std::ptr::from_ref(server.verifier.as_ref().unwrap().chains());
    chains(one) == chains(other)
}

#[test]
fn it_is_made_once_and_goes_with_the_last_of_them() {
    // Places that no other test uses, because all tests share one process.
    let mut options = verifying(ClientMode::Required);
    options.certificates[0].place = "shared.pem".to_owned();
    options.client.authorities[0].place = "shared-ca.pem".to_owned();
    let [one, two] = ["a", "b"].map(|name| build_as(name, &options, &new_resumption()));
    assert!(Arc::ptr_eq(&certificate_of(&one), &certificate_of(&two)));
    assert!(verify_alike(&one, &two));
    let key = Arc::downgrade(&certificate_of(&one).key);
    drop(one);
    assert!(key.upgrade().is_some());
    drop(two);
    assert!(key.upgrade().is_none(), "no key outlives who serves it");
}

#[test]
fn what_differs_in_one_thing_is_made_apart() {
    let mut options = verifying(ClientMode::Required);
    options.certificates[0].place = "apart.pem".to_owned();
    options.certificates[0].key_pem = Some(options.certificates[0].chain_pem.clone());
    let first = build(&options);
    let differs = |change: fn(&mut ServerOptions)| {
        let mut changed = options.clone();
        change(&mut changed);
        let other = build(&changed);
        let is_same = Arc::ptr_eq(&certificate_of(&first), &certificate_of(&other));
        [!is_same, !verify_alike(&first, &other)]
    };
    assert_eq!(differs(|_| {}), [false, false]);
    // Messages name the place.
    assert_eq!(differs(|it| it.certificates[0].place.push('x')), [true, false]);
    // A byte behind the last block.
    assert_eq!(differs(|it| it.certificates[0].chain_pem.push(b'\n')), [true, false]);
    assert_eq!(differs(|it| it.certificates[0].key_pem = None), [true, false]);
    assert_eq!(differs(|it| it.client.authorities[0].place.push('x')), [false, true]);
    let twice = |it: &mut ServerOptions| it.client.authorities.push(pem("b.pem", root().pem()));
    assert_eq!(differs(twice), [false, true]);
    let accepts = |it: &mut ServerOptions| it.client.expired_lists = ExpiredLists::Accept;
    assert_eq!(differs(accepts), [false, true]);
}
