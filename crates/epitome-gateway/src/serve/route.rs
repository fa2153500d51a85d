//! Routes: which of the gateway's doors a path leads to. Everything that is not the gateway's own is a provider's.

epitome_runtime::named_enum! {
    /// A door.
    pub(super) enum Route {
        /// Everything that is a provider's.
        Proxy = "proxy",
        /// `/livez`, `/readyz`, `/health`.
        Health = "health",
        /// `/metrics`.
        Metrics = "metrics",
        /// `/api/…`.
        Api = "api",
        /// `/mcp`.
        Mcp = "mcp",
    }
}

impl Route {
    pub(super) fn of(path: &str) -> Self {
        let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next()).unwrap_or_default();
        match first {
            "livez" | "readyz" | "health" => Route::Health,
            "metrics" => Route::Metrics,
            "api" => Route::Api,
            "mcp" => Route::Mcp,
            _ => Route::Proxy,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::OWN_PATHS;

    #[test]
    fn what_the_configuration_knows_as_the_gateways_own_is_and_nothing_else() {
        for own in OWN_PATHS {
            assert_ne!(Route::of(&format!("/{own}")), Route::Proxy, "{own}");
            assert_ne!(Route::of(&format!("/{own}/more")), Route::Proxy, "{own}");
        }
        for proxied in ["/", "/v1/models", "/apis", "/v1/api", "*", "//api", "/healthy"] {
            assert_eq!(Route::of(proxied), Route::Proxy, "{proxied}");
        }
    }
}
