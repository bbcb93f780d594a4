//! TLS, and what must not get around it.

use crate::support::client::{ACK, Client, ERROR, be32, info_payload, meta_payload, option};
use crate::support::export::{MemoryExport, MemoryExports};
use crate::support::stream::{PlainStream, Stream, TlsStream};
use crate::support::{Served, pattern, run};
use nitro_nbd::transport::WriteHalf as _;
use nitro_nbd::{End, NbdError, ServerOptions, TlsFiles, TlsPolicy};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::future::{Future, pending};
use std::path::PathBuf;
use std::sync::Arc;

const TLS_REQUIRED: u32 = ERROR + 5;
const UNKNOWN: u32 = ERROR + 6;
const SIZE: usize = 3 << 20;

/// An authority and what it signed, in a directory of its own.
pub(crate) struct Pki {
    directory: PathBuf,
    client: (CertificateDer<'static>, String),
    client_pem: String,
}

impl Pki {
    pub(crate) fn new(name: &str) -> Self {
        let directory = std::env::temp_dir().join(format!("nitro-nbd-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let sign = |names: &[&str]| {
            let key = KeyPair::generate().unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();
            (certificate, key.serialize_pem())
        };
        let (server, key) = sign(&["localhost"]);
        std::fs::write(directory.join("server.pem"), server.pem()).unwrap();
        std::fs::write(directory.join("key.pem"), key).unwrap();
        std::fs::write(directory.join("ca.pem"), authority.pem()).unwrap();
        let (client, key) = sign(&["client"]);
        Self { directory, client_pem: client.pem(), client: (client.der().clone(), key) }
    }

    fn files(&self, mutual: bool) -> TlsFiles {
        let file = |name| self.directory.join(name);
        let client_authority = mutual.then(|| file("ca.pem"));
        TlsFiles { certificate: file("server.pem"), key: file("key.pem"), client_authority }
    }

    /// The files of the client, as libnbd names them.
    pub(crate) fn client_folder(&self) -> PathBuf {
        std::fs::copy(self.directory.join("ca.pem"), self.directory.join("ca-cert.pem")).unwrap();
        std::fs::write(self.directory.join("client-cert.pem"), &self.client_pem).unwrap();
        std::fs::write(self.directory.join("client-key.pem"), &self.client.1).unwrap();
        self.directory.clone()
    }

    pub(crate) fn server(&self, mutual: bool) -> Arc<ServerConfig> {
        self.files(mutual).load().unwrap()
    }

    fn client(&self, with_certificate: bool, version: &'static rustls::SupportedProtocolVersion) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.directory.join("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let builder = builder.with_root_certificates(roots);
        Arc::new(if with_certificate {
            let key = PrivateKeyDer::from_pem_slice(self.client.1.as_bytes()).unwrap();
            builder.with_client_auth_cert(vec![self.client.0.clone()], key).unwrap()
        } else {
            builder.with_no_client_auth()
        })
    }
}

impl Drop for Pki {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn serve_with<T: 'static, F: Future<Output = T> + 'static>(
    tls: TlsPolicy,
    talk: impl FnOnce(Client<PlainStream>) -> F + 'static,
) -> (Served, T) {
    let export = Arc::new(MemoryExport::new(pattern(SIZE, 6)));
    serve_exports(MemoryExports::one(&export), tls, talk)
}

fn serve_exports<T: 'static, F: Future<Output = T> + 'static>(
    exports: MemoryExports,
    tls: TlsPolicy,
    talk: impl FnOnce(Client<PlainStream>) -> F + 'static,
) -> (Served, T) {
    let options = ServerOptions { tls, ..ServerOptions::default() };
    run(exports, options, pending(), move |end| async move { talk(Client::greet(PlainStream::new(end)).await).await })
}

async fn upgrade(mut client: Client<PlainStream>, config: Arc<ClientConfig>) -> Option<Client<TlsStream>> {
    assert_eq!(client.option(5, &[]).await, [(ACK, vec![])]);
    TlsStream::connect(client.stream, config).await.map(Client::over)
}

#[test]
fn data_goes_both_ways_encrypted() {
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let pki = Pki::new("both");
        let (server, config) = (pki.server(true), pki.client(true, version));
        let (served, ()) = serve_with(TlsPolicy::Required(server), |client| async move {
            let mut client = upgrade(client, config).await.unwrap();
            assert_eq!(client.option_result(5, &[]).await, ERROR + 3);
            client.use_structured().await;
            client.go("disk").await;
            let data = pattern(SIZE, 6);
            assert_eq!(client.ask(0, 0, 0, SIZE as u32, &[]).await.data, data);
            let more = pattern(777_777, 7);
            assert_eq!(client.ask(1, 1, 4321, 777_777, &more).await.error, 0);
            assert_eq!(client.ask(0, 0, 4321, 777_777, &[]).await.data, more);
            let mut lens = std::collections::HashMap::new();
            for i in 0..200 {
                lens.insert(client.send(0, 0, i, 100, &[]).await, 100);
            }
            for _ in 0..200 {
                let (_, answer) = client.answer(&lens).await.unwrap();
                assert_eq!(answer.data.len(), 100);
            }
            client.send(0, 2, 0, 0, &[]).await;
            client.stream.close().await;
        });
        let summary = served.unwrap();
        assert_eq!((summary.end, summary.tls, summary.requests), (End::Disconnected, true, 203));
    }
}

#[test]
fn nothing_is_told_before_required_tls() {
    let pki = Pki::new("required");
    let (served, ()) = serve_with(TlsPolicy::Required(pki.server(false)), |mut client| async move {
        for (code, payload) in [
            (3, vec![]),
            (6, info_payload("disk", &[])),
            (7, info_payload("disk", &[])),
            (8, vec![]),
            (9, meta_payload("disk", &[])),
            (10, meta_payload("disk", &[])),
            (77, vec![]),
        ] {
            assert_eq!(client.option_result(code, &payload).await, TLS_REQUIRED);
        }
        assert_eq!(client.option_result(5, &[1]).await, ERROR + 3);
        client.stream.send(&option(1, b"disk")).await.unwrap();
        assert!(client.stream.receive(1).await.is_none());
    });
    assert!(matches!(served, Err(NbdError::Refused { .. })));
}

#[test]
fn optional_tls_is_optional() {
    let pki = Pki::new("optional");
    let (server, config) = (pki.server(false), pki.client(false, &rustls::version::TLS13));
    let (served, ()) = serve_with(TlsPolicy::Optional(Arc::clone(&server)), |mut client| async move {
        client.go("disk").await;
        client.disconnect().await;
    });
    assert!(!served.unwrap().tls);
    let (served, ()) = serve_with(TlsPolicy::Optional(server), |mut client| async move {
        // What is negotiated in plaintext is forgotten.
        client.use_structured().await;
        assert_eq!(client.option_result(10, &meta_payload("disk", &["base:allocation"])).await, ACK);
        let mut client = upgrade(client, config).await.unwrap();
        let (_, flags) = client.go("disk").await;
        assert_eq!(flags & (1 << 7), 0, "structured replies are forgotten");
        assert_eq!(client.ask(0, 7, 0, 10, &[]).await.error, 22);
        assert_eq!(client.ask(0, 0, 0, 4, &[]).await.data, pattern(4, 6));
        client.disconnect().await;
    });
    assert!(served.unwrap().tls);
}

#[test]
fn plaintext_is_not_carried_into_tls() {
    let pki = Pki::new("injection");
    let server = pki.server(false);
    let injected = option(7, &info_payload("disk", &[]));
    for len in [1, injected.len()] {
        let bytes = [option(5, &[]), injected[..len].to_vec()].concat();
        let (served, ()) = serve_with(TlsPolicy::Optional(Arc::clone(&server)), |mut client| async move {
            client.stream.send(&bytes).await.unwrap();
            assert!(client.stream.receive(1).await.is_none());
        });
        assert!(matches!(served, Err(NbdError::PlaintextAfterStartTls { bytes }) if bytes == len));
    }
    // Later plaintext is taken for TLS, and fails as such.
    let (served, ()) = serve_with(TlsPolicy::Optional(server), |mut client| async move {
        client.option(5, &[]).await;
        client.stream.send(&injected).await.unwrap();
        while client.stream.receive(1).await.is_some() {}
    });
    assert!(matches!(served, Err(NbdError::Io { .. })));
}

/// The names that a client gets with NBD_OPT_LIST.
fn listed(replies: &[(u32, Vec<u8>)]) -> Vec<String> {
    let servers = replies.iter().filter(|(kind, _)| *kind == 2);
    servers.map(|(_, entry)| String::from_utf8(entry[4..4 + be32(entry, 0) as usize].to_vec()).unwrap()).collect()
}

/// Tries to list and open an export that is for others, in each way.
async fn finds_nothing<S: Stream>(client: &mut Client<S>, name: &str) {
    for (code, payload) in [
        (6, info_payload(name, &[])),
        (7, info_payload(name, &[])),
        (9, meta_payload(name, &[])),
        (10, meta_payload(name, &["base:allocation"])),
    ] {
        assert_eq!(client.option_result(code, &payload).await, UNKNOWN, "option {code}");
    }
    client.stream.send(&option(1, name.as_bytes())).await.unwrap();
    assert!(client.stream.receive(1).await.is_none());
}

#[test]
fn a_client_finds_the_exports_of_its_certificate_alone() {
    let exports = || {
        let one = |name: &str| (name.to_owned(), Arc::new(MemoryExport::new(pattern(SIZE, 6))));
        MemoryExports(["of client", "of other"].map(one).to_vec())
    };
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let pki = Pki::new("identity");
        let (server, config) = (pki.server(true), pki.client(true, version));
        let (served, ()) = serve_exports(exports(), TlsPolicy::Optional(server), |client| async move {
            let mut client = upgrade(client, config).await.unwrap();
            assert_eq!(listed(&client.option(3, &[]).await), ["of client"]);
            client.use_structured().await;
            // The only export that it may use is the default.
            client.option(6, &info_payload("", &[])).await;
            assert_eq!(client.option_result(6, &info_payload("of client", &[])).await, ACK);
            finds_nothing(&mut client, "of other").await;
        });
        assert!(matches!(served, Err(NbdError::Refused { .. })), "{served:?}");
    }
    let pki = Pki::new("identity");
    let (served, ()) = serve_exports(exports(), TlsPolicy::Optional(pki.server(true)), |mut client| async move {
        assert!(listed(&client.option(3, &[]).await).is_empty());
        client.use_structured().await;
        finds_nothing(&mut client, "of client").await;
    });
    assert!(matches!(served, Err(NbdError::Refused { .. })), "{served:?}");
}

#[test]
fn clients_without_a_certificate_are_turned_away() {
    let pki = Pki::new("mutual");
    let (server, config) = (pki.server(true), pki.client(false, &rustls::version::TLS12));
    let (served, connected) =
        serve_with(TlsPolicy::Required(server), |client| async move { upgrade(client, config).await.is_some() });
    assert!(!connected && matches!(served, Err(NbdError::Io { .. })));
}

#[test]
fn a_cut_stream_is_not_a_leave() {
    let pki = Pki::new("cut");
    let (server, config) = (pki.server(false), pki.client(false, &rustls::version::TLS13));
    for notice in [true, false] {
        let (server, config) = (Arc::clone(&server), Arc::clone(&config));
        let (served, ()) = serve_with(TlsPolicy::Required(server), move |client| async move {
            let mut client = upgrade(client, config).await.unwrap();
            client.go("disk").await;
            if notice {
                client.stream.close().await;
            }
            client.stream.raw().writer.shutdown().await;
            assert!(client.stream.receive(1).await.is_none());
        });
        assert_eq!(served.is_ok(), notice, "{served:?}");
    }
}

#[test]
fn unusable_files_are_named() {
    let pki = Pki::new("files");
    let message = |files: &TlsFiles| files.load().unwrap_err().to_string();
    let files = TlsFiles { key: "/nonexistent/key".into(), ..pki.files(false) };
    assert_eq!(message(&files), "/nonexistent/key: no usable private key");
    let files = TlsFiles { certificate: pki.directory.join("key.pem"), ..pki.files(false) };
    assert!(message(&files).ends_with("key.pem: the file holds no certificate"));
    let other = Pki::new("files-other");
    let files = TlsFiles { key: other.directory.join("key.pem"), ..pki.files(false) };
    assert_eq!(message(&files), "the TLS configuration is unusable");
}
