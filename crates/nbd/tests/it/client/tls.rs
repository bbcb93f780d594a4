//! The client over TLS.

use super::{connect, options};
use crate::support::mortal::Mortal;
use crate::tls::Pki;
use nitro_nbd::client::{ClientOptions, Security};
use nitro_nbd::{ClientTlsFiles, ServerOptions, TlsPolicy};
use nitro_port::Device as _;
use nitro_testkit::Simulation;
use std::rc::Rc;

#[test]
fn a_client_proves_itself_to_a_server_that_it_recognises() {
    let pki = Pki::new("origin");
    let folder = pki.client_folder();
    let simulation = Simulation::new(1);
    let server = |tls| {
        let mut server = Mortal::new(&simulation, 1 << 20, 1);
        let inner = Rc::get_mut(&mut server).unwrap();
        inner.options = ServerOptions { tls, ..ServerOptions::default() };
        server
    };
    let tls = |name| ClientOptions {
        security: Security::tls(&ClientTlsFiles { folder: folder.clone() }, name).unwrap(),
        ..options(1 << 20)
    };
    simulation.run(async {
        let secure = server(TlsPolicy::Required(pki.server(true)));
        let disk = connect(&simulation, &secure, tls("localhost")).await.unwrap();
        disk.write(0, vec![5; 100_000 / 512 * 512].into()).await.unwrap();
        disk.flush().await.unwrap();
        secure.kill();
        secure.start();
        assert_eq!(disk.read(512, 512).await.unwrap(), vec![5; 512]);
        // Another name than that in the certificate, no TLS, and no TLS there.
        let refused = |error: Result<_, nitro_nbd::client::ClientError>| error.err().unwrap().to_string();
        let said = refused(connect(&simulation, &secure, tls("elsewhere")).await);
        assert!(said.contains("certificate"), "{said}");
        let said = refused(connect(&simulation, &secure, options(1 << 20)).await);
        assert!(said.contains("requires TLS"), "{said}");
        let said = refused(connect(&simulation, &server(TlsPolicy::Disabled), tls("localhost")).await);
        assert!(said.contains("offers no TLS"), "{said}");
    });
    simulation.end();
}
