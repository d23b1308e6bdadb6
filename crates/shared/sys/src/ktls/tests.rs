//! Keys, the calls that hand them over, and a try of what the kernel is able to do.

use super::*;

fn keys(cipher: Cipher, key: &[u8]) -> Keys<'_> {
    Keys {
        version: Version::Tls13,
        cipher,
        key,
        iv: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12],
        sequence: 0x0102,
    }
}

#[test]
fn keys_are_as_long_as_the_kernel_wants_them() {
    let length = |cipher: Cipher| {
        let key = vec![0; cipher.key_bytes()];
        layout(&keys(cipher, &key)).unwrap().bytes().len()
    };
    assert_eq!(length(Cipher::Aes128Gcm), size_of::<libc::tls12_crypto_info_aes_gcm_128>());
    assert_eq!(length(Cipher::Aes256Gcm), size_of::<libc::tls12_crypto_info_aes_gcm_256>());
    assert_eq!(
        length(Cipher::ChaCha20Poly1305),
        size_of::<libc::tls12_crypto_info_chacha20_poly1305>()
    );
}

#[test]
fn keys_lie_where_the_kernel_looks_for_them() {
    let key = [9; 32];
    let laid = layout(&keys(Cipher::Aes128Gcm, &key[..16])).unwrap();
    let info = laid.bytes();
    let iv = [5, 6, 7, 8, 9, 10, 11, 12];
    let sequence = [0, 0, 0, 0, 0, 0, 1, 2];
    assert_eq!(info[4..], [&iv[..], &[9; 16], &[1, 2, 3, 4], &sequence].concat());
    let laid = layout(&keys(Cipher::ChaCha20Poly1305, &key)).unwrap();
    let info = laid.bytes();
    assert_eq!(info[4..16], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(info[info.len() - 8..], sequence);
}

#[test]
fn a_key_of_another_length_is_refused() {
    assert!(layout(&keys(Cipher::Aes256Gcm, &[9; 16])).is_err());
}

#[test]
fn what_is_not_connected_cannot_be_handed_over() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    assert!(attach(listener.as_fd()).is_err());
}
/// Checks on a kernel with TLS that written data arrives as records of the right types.
#[test]
fn the_kernel_seals_what_is_written() {
    use std::io::{Read, Write};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let keys = keys(Cipher::Aes128Gcm, &[9; 16]);
    let handed = attach(server.as_fd())
        .and_then(|()| install(server.as_fd(), KtlsDirection::Send, &keys))
        .and_then(|()| attach(client.as_fd()))
        .and_then(|()| install(client.as_fd(), KtlsDirection::Receive, &keys));
    let found = probe();
    assert_eq!(handed.is_ok(), found.lack.is_none(), "{handed:?} {found:?}");
    if handed.is_err() {
        assert!(send_record(&server, 21, &[1, 0]).is_err() || found.lack.is_some());
        return;
    }
    assert!(has_room(&server).unwrap());
    server.write_all(b"some words").unwrap();
    send_record(&server, 21, &[1, 0]).unwrap();
    let again = install(server.as_fd(), KtlsDirection::Send, &keys);
    assert_eq!(again.is_ok(), found.rekeys);
    let mut room = [0; 32];
    let count = client.read(&mut room).unwrap();
    assert_eq!(&room[..count], b"some words");
    // A record of another type cannot be read without asking for its type.
    let error = client.read(&mut room).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::EIO));
}

fn fault(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

#[test]
fn kernels_say_how_they_were_built() {
    let config = "CONFIG_NET=y\n# CONFIG_TLS is not set\nCONFIG_TLS_DEVICE=y\n";
    assert_eq!(built(config, "CONFIG_TLS"), Some(TlsBuild::Not));
    let said = |line: &str| built(&format!("CONFIG_NET=y\n{line}\n"), "CONFIG_TLS");
    assert_eq!(said("CONFIG_TLS=m"), Some(TlsBuild::Module));
    assert_eq!(said("CONFIG_TLS=y"), Some(TlsBuild::In));
    assert_eq!(built("", "CONFIG_TLS"), None);
}

#[test]
fn what_is_not_there_has_its_reason() {
    let lack = |code, built| KtlsLack::of(&fault(code), built);
    assert_eq!(lack(libc::ENOENT, Some(TlsBuild::Not)), KtlsLack::NotBuilt);
    assert_eq!(lack(libc::ENOENT, Some(TlsBuild::Module)), KtlsLack::NotLoaded);
    assert_eq!(lack(libc::ENOENT, None), KtlsLack::NotThere);
    assert_eq!(lack(libc::EPERM, None), KtlsLack::Forbidden);
    let refused = lack(libc::EINVAL, None);
    assert!(refused.to_string().contains("Invalid argument"));
    assert!(KtlsLack::NotThere.remedy().unwrap().contains("modprobe tls"));
}

fn found(error_of_chacha_12: Option<i32>, rekeys: bool) -> KtlsProbe {
    let tried =
        |version, cipher, error| KtlsTrial { version, cipher, half: KtlsDirection::Send, error };
    KtlsProbe {
        lack: None,
        tried: vec![
            tried(Version::Tls13, Cipher::Aes128Gcm, None),
            tried(Version::Tls12, Cipher::ChaCha20Poly1305, error_of_chacha_12),
        ],
        rekeys,
    }
}

#[test]
fn what_was_found_is_one_sentence() {
    let all = found(None, true);
    let sentence = "the kernel encrypts with all ciphers of TLS 1.2 and 1.3, and changes keys";
    assert_eq!(all.sentence(), sentence);
    assert_eq!(all.remedy(), None);
    let some = found(Some(libc::ENOENT), false);
    let sentence = "the kernel does not encrypt with ChaCha20-Poly1305 by TLS 1.2, and cannot \
                    change keys: a connection ends with a KeyUpdate";
    assert_eq!(some.sentence(), sentence);
    assert_eq!(some.remedy(), Some(CIPHER_REMEDY));
}

#[test]
fn what_was_tried_is_known() {
    let some = found(Some(libc::ENOENT), false);
    assert!(some.takes(Version::Tls13, Cipher::Aes128Gcm, KtlsDirection::Send));
    assert!(!some.takes(Version::Tls13, Cipher::Aes128Gcm, KtlsDirection::Receive));
    assert!(!some.takes(Version::Tls12, Cipher::ChaCha20Poly1305, KtlsDirection::Send));
}

#[test]
fn this_kernel_answers() {
    let found = probe();
    assert_eq!(found.tried.is_empty(), found.lack.is_some());
    // AES-128-GCM with TLS 1.2 is the first cipher that kernel TLS supported.
    let first = found.takes(Version::Tls12, Cipher::Aes128Gcm, KtlsDirection::Send);
    assert_eq!(first, found.lack.is_none(), "{found:?}");
}
