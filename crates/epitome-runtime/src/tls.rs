//! TLS: the one place that says which cryptography it is done with.

use std::sync::Once;

/// Makes ring the provider of this process, unless the program has chosen one already.
pub fn install_provider() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // An error says that there is one already, which is as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
